package config

import (
	"encoding/json"
	"reflect"
	"slices"
)

// perSession are the settings of the process that every session may have its
// own of: they say what is on offer to it, and where.
var perSession = []string{"daemon.toolsets", "daemon.exclude_tools", "daemon.read_only", "daemon.host", "daemon.port"}

// Asks reports whether the environment or the command line of the store says
// anything.
func (st *Store) Asks() bool { return len(st.asked()) > 0 }

// asked lists the keys that the environment and the command line have.
func (st *Store) asked() []*key {
	var keys []*key
	for _, k := range settings().keys {
		for _, l := range []*layer{st.env, st.command} {
			if _, ok := l.keys()[k]; ok {
				keys = append(keys, k)
				break
			}
		}
	}
	return keys
}

func (l *layer) keys() map[*key]place {
	if l == nil {
		return nil
	}
	return l.has
}

// Beyond lists what the environment and the command line of a session's store ask
// for that the process it joins, with the settings in force, cannot give it:
// settings of the process that differ, and those that are looser there. What the
// user's own file says is never too much.
func (st *Store) Beyond(server *Snapshot) (differ, looser []string) {
	own := st.own()
	for _, k := range st.asked() {
		below, want := k.in(&server.Config), k.in(&st.Current().Config)
		switch {
		case slices.Contains(perSession, k.name) || reflect.DeepEqual(below.Interface(), want.Interface()):
		case k.mark == process:
			differ = append(differ, k.name)
		case !reflect.DeepEqual(k.in(&own).Interface(), want.Interface()) && k.looser(&server.Config, &st.Current().Config):
			looser = append(looser, k.name)
		}
	}
	return differ, looser
}

// Needs returns what a process must have among its settings so that the store is
// not beyond it, in the form of --set: as little as possible, since it holds for
// others too.
func (st *Store) Needs() []string {
	own := Snapshot{Config: st.own()}
	differ, looser := st.Beyond(&own)
	var set []string
	for _, name := range append(differ, looser...) {
		k := settings().find(name)
		raw, err := json.Marshal(k.in(&st.Current().Config).Interface())
		if err != nil {
			panic(err) // it was read from JSON
		}
		set = append(set, name+"="+string(raw))
	}
	return set
}

// own returns the settings of the user's file alone.
func (st *Store) own() Config { return merge(st.defaults, st.base.Load().layer, nil, false).cfg }

// looser reports whether next allows more in k than prev, or may do so.
func (k *key) looser(prev, next *Config) bool {
	switch {
	case k.mark == free:
		return false
	case k.rule == "patterns":
		return patternsLooser(&prev.Shell, &next.Shell)
	default:
		return k.mark != tighten || !k.tightens(k.in(prev), k.in(next))
	}
}
