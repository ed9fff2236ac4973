package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
)

// Snapshot is the settings in force at one moment, with where each comes from.
// It is immutable; the lists in Config are not to be changed either.
type Snapshot struct {
	Config Config

	root     string
	origins  map[*key]Origin
	warnings []Warning
}

// Value is one setting as people see it.
type Value struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin Origin `json:"origin"`
}

// Root returns the project the snapshot is for, or "".
func (s *Snapshot) Root() string { return s.root }

// Warnings lists what the sources say that does not apply, and why.
func (s *Snapshot) Warnings() []Warning { return slices.Clone(s.warnings) }

// Origin returns where the value of key comes from; "" for an unknown key.
func (s *Snapshot) Origin(key string) Origin {
	k := settings().find(key)
	switch {
	case k == nil:
		return ""
	case s.origins[k] == "":
		return FromDefault
	default:
		return s.origins[k]
	}
}

// Values lists the settings of a section, or of all for "", in order and without
// secrets. An unknown section has none.
func (s *Snapshot) Values(section string) []Value {
	var values []Value
	for _, k := range settings().keys {
		if section == "" || document.Fold(section) == document.Fold(k.section) {
			values = append(values, Value{k.name, shown(k, k.in(&s.Config)), s.Origin(k.name)})
		}
	}
	return values
}

// Changed lists the keys whose values differ between two snapshots.
func Changed(a, b *Snapshot) []string {
	var names []string
	for _, k := range settings().keys {
		if !reflect.DeepEqual(k.in(&a.Config).Interface(), k.in(&b.Config).Interface()) {
			names = append(names, k.name)
		}
	}
	return names
}

// shown returns a value without the secrets in it.
func shown(k *key, v reflect.Value) any {
	if !k.secret {
		return v.Interface()
	}
	masked := []string{}
	for i := range v.Len() {
		masked = append(masked, withoutUser(v.Index(i).String()))
	}
	return masked
}

// withoutUser hides user and password in an address, with or without a scheme.
func withoutUser(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	host := address[at+1:]
	if u, err := url.Parse(address); err == nil && u.Scheme != "" && u.Host != "" {
		return u.Scheme + "://***@" + host
	}
	return "***@" + host
}

// show returns a value as JSON for a message.
func show(v reflect.Value) string {
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return v.String()
	}
	return document.Clip(string(raw))
}

// The ports of ours when daemon.port is null.
const (
	FirstPort = 8720
	PortRange = 100
)

// UserPort returns the port of a user when daemon.port is null: one of ours, the
// same one every time, by a hash of the name.
func UserPort(username string) int {
	h := sha256.Sum256([]byte(strings.ToLower(username)))
	return FirstPort + int(binary.BigEndian.Uint16(h[:2]))%PortRange
}
