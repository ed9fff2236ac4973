package job

import (
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// EnvOptions say what a command finds in its environment.
type EnvOptions struct {
	Inherit []string          // NAME=value, as os.Environ has them; nil: nothing is inherited
	Set     map[string]string // what the caller asks for; it wins over what is inherited
	Strip   []string          // globs (* ? [a-z]) of names that are taken out after that, in any case
	Dir     string            // becomes PWD; "": PWD stays
	// Refuse judges what the caller asks for and returns why it must not be
	// set, or "". Nil: nothing is refused.
	Refuse func(name, value string) string
}

// EnvRefused is a variable that a caller may not set.
type EnvRefused struct{ Name, Reason string }

func (e *EnvRefused) Error() string {
	return fmt.Sprintf("the variable %s may not be set: %s", e.Name, e.Reason)
}

// Environment returns the environment of a command, sorted, and the names that
// were stripped of it. It is a pure function. A name or value that cannot be one
// is a VALIDATION_ERROR; one that is refused is an [*EnvRefused].
func Environment(o EnvOptions) (env, stripped []string, err error) {
	vars := make(map[string]string, len(o.Inherit)+len(o.Set)+1) // NAME=value by key
	put := func(name, value string) { vars[envKey(name)] = name + "=" + value }
	for _, v := range o.Inherit {
		// A name may begin with "=" on Windows, and nowhere else means anything.
		if i := strings.IndexByte(v[min(1, len(v)):], '='); i >= 0 {
			put(v[:i+1], v[i+2:])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		value := o.Set[name]
		if name == "" || strings.ContainsAny(name, "=\x00\r\n") || strings.Contains(value, "\x00") {
			return nil, nil, fault.New(fault.ValidationError, "env: %q cannot be the name or value of a variable", name)
		}
		if o.Refuse != nil {
			if reason := o.Refuse(name, value); reason != "" {
				return nil, nil, &EnvRefused{name, reason}
			}
		}
		put(name, value)
	}
	for key, v := range vars {
		name := v[:strings.IndexByte(v[1:], '=')+1]
		out, err := matches(o.Strip, name)
		if err != nil {
			return nil, nil, err
		}
		if out {
			delete(vars, key)
			stripped = append(stripped, name)
		}
	}
	if o.Dir != "" {
		put("PWD", o.Dir)
	}
	slices.Sort(stripped)
	return slices.Sorted(maps.Values(vars)), stripped, nil
}

// envKey is what two spellings of the same variable have in common.
func envKey(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// matches reports whether one of the globs fits the name.
func matches(globs []string, name string) (bool, error) {
	// A slash is a character like any other in a name.
	name = strings.ReplaceAll(strings.ToUpper(name), "/", "_")
	for _, g := range globs {
		ok, err := path.Match(strings.ToUpper(g), name)
		if err != nil {
			return false, fmt.Errorf("shell.env_strip: %q: %w", g, err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}
