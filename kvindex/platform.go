package kvindex

// kvindexNeedsA64BitPlatform does not compile where words have 32 bits. There the atomic words of slots and buffers are not
// aligned to 8 bytes, which the first Put would panic for, and a slot is no cache line.
const kvindexNeedsA64BitPlatform = uint8(^uint(0)>>63) - 1

var _ = kvindexNeedsA64BitPlatform
