/* The end of a part of a file that began with _lanes.h. */
#undef Ints
#undef Unaligned
#undef Floats
#undef PICK
#undef INLINE
#undef TARGET
#undef NAME
#undef LANES
