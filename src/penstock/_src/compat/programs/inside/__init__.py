"""What programs use of TensorFlow's inside that is not public: small functions, written for `reach_in.py`, one module for a few
of TensorFlow's."""
