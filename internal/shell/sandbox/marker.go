package sandbox

import (
	"bytes"
	"os"
)

// MarkerEnv is the variable that every command of ours has in its environment,
// with the id of its job: a client that finds it in its own need not try to
// connect, and a server that finds it in a client's refuses it. A command can
// take it off; on Linux the mark of Mark stays.
const MarkerEnv = "ASYNC_CRUD_MCP_JOB"

// foreignMarker reports whether an environment, variables with a zero byte
// between them, has a marker other than our own. A server that runs inside a
// command of another one has one itself, and so have its clients.
func foreignMarker(env []byte) bool {
	for variable := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte(MarkerEnv+"=")); ok {
			return string(value) != os.Getenv(MarkerEnv)
		}
	}
	return false
}
