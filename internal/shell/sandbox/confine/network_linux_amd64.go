package confine

const (
	archNative  = 0xc000003e
	archCompat  = 0x40000003 // 32-bit programs
	numberLimit = 0x40000000

	sysSocket           = 41
	sysCompatSocket     = 359
	sysCompatSocketcall = 102
)
