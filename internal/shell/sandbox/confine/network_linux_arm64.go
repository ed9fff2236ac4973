package confine

const (
	archNative  = 0xc00000b7
	archCompat  = 0x40000028 // 32-bit programs
	numberLimit = 0x40000000

	sysSocket           = 198
	sysCompatSocket     = 281
	sysCompatSocketcall = 102
)
