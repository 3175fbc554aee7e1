/* The end of a part of a file that began with _lanes.h. */
#undef ONE_FROM
#undef SIGN_BIT
#undef WHOLE_FROM
#undef Whole
#undef Real
#undef Ints
#undef Unaligned
#undef Floats
#undef PICK
#undef INLINE
#undef TARGET
#undef NAME
#undef LANES
