//go:build linux && !amd64 && !arm64

package confine

// There is no filter for this architecture: archNative 0 says so.
const (
	archNative, archCompat, numberLimit             = 0, 1, 2
	sysSocket, sysCompatSocket, sysCompatSocketcall = 0, 0, 0
)
