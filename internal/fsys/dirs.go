package fsys

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// appName is the one name used for every directory of ours.
const appName = "async-crud-mcp"

// Dirs are the directories of this program that belong to the user.
type Dirs struct {
	Config string // settings and what the user trusts
	Data   string // what must survive: history, state
	Log    string // logs and other traces of running
}

// UserDirs returns the user's directories. They need not exist. The variable
// ASYNC_CRUD_MCP_HOME puts all of them into one directory; XDG variables count
// everywhere but on Windows.
func UserDirs() (Dirs, error) {
	return userDirs(runtime.GOOS, os.Getenv)
}

func userDirs(goos string, getenv func(string) string) (Dirs, error) {
	if home := getenv("ASYNC_CRUD_MCP_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		return Dirs{Config: abs, Data: abs, Log: abs}, err
	}
	if goos == "windows" {
		roaming, local := getenv("APPDATA"), getenv("LOCALAPPDATA")
		if roaming == "" || local == "" {
			return Dirs{}, errors.New("APPDATA and LOCALAPPDATA must be set, or ASYNC_CRUD_MCP_HOME")
		}
		own := filepath.Join(local, appName)
		return Dirs{Config: filepath.Join(roaming, appName), Data: own, Log: filepath.Join(own, "logs")}, nil
	}
	home := getenv("HOME")
	config, data, log := ".config", ".local/share", ".local/state"
	if goos == "darwin" {
		config, data, log = "Library/Application Support", "Library/Application Support", "Library/Logs"
	}
	var missing bool
	dir := func(variable, fallback string) string {
		// A relative path in an XDG variable is to be ignored, says the standard.
		if base := getenv(variable); filepath.IsAbs(base) {
			return filepath.Join(base, appName)
		}
		missing = missing || home == ""
		return filepath.Join(home, fallback, appName)
	}
	d := Dirs{
		Config: dir("XDG_CONFIG_HOME", config),
		Data:   dir("XDG_DATA_HOME", data),
		Log:    dir("XDG_STATE_HOME", log),
	}
	if missing {
		return Dirs{}, errors.New("HOME must be set, or ASYNC_CRUD_MCP_HOME")
	}
	return d, nil
}
