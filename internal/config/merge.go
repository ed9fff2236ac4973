package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
)

// merged is the outcome of laying sources over each other.
type merged struct {
	cfg      Config
	origins  map[*key]Origin // of keys that are not default
	warnings []Warning
}

// merge lays the sources over the defaults: the user's file, the project's
// file, then those that go before any file. Each may be nil. Slices may be
// shared with the sources, which nobody changes.
func merge(defaults Config, user, project *layer, trusted bool, above ...*layer) merged {
	m := merged{cfg: defaults, origins: make(map[*key]Origin)}
	m.lay(user)
	if project != nil {
		m.warnings = append(m.warnings, project.warnings...)
		m.layProject(project, trusted)
	}
	for _, l := range above {
		m.lay(l)
	}
	m.cap(&m.cfg.Crud.DefaultTimeout, m.cfg.Crud.MaxTimeout, "crud.default_timeout", "crud.max_timeout")
	m.cap(&m.cfg.Shell.TimeoutDefault, m.cfg.Shell.TimeoutMax, "shell.timeout_default", "shell.timeout_max")
	return m
}

func (m *merged) lay(l *layer) {
	if l == nil {
		return
	}
	m.warnings = append(m.warnings, l.warnings...)
	for k, p := range l.has {
		m.set(k, k.in(&l.cfg), p)
	}
}

func (m *merged) set(k *key, v reflect.Value, p place) {
	k.in(&m.cfg).Set(v)
	m.origins[k] = p.origin
}

// cap lowers a default to the maximum above it. Its origin is then that of the
// maximum.
func (m *merged) cap(value *float64, limit float64, name, limitName string) {
	if *value > limit {
		*value = limit
		m.origins[settings().find(name)] = m.origin(settings().find(limitName))
	}
}

func (m *merged) origin(k *key) Origin { return cmp.Or(m.origins[k], FromDefault) }

const (
	howToTrust = "a person can allow it with 'async-crud-mcp trust'"
	ofProcess  = "is ignored: it belongs to the server process; set it in the user's own file"
)

// layProject lays a project's file over what lies below, as far as it may.
//
// This is a border: whoever can write into a project can write this file.
func (m *merged) layProject(l *layer, trusted bool) {
	for _, k := range settings().keys {
		p, ok := l.has[k]
		if !ok || k.rule == "patterns" {
			continue
		}
		ignore := func(format string, args ...any) {
			m.warnings = append(m.warnings, Warning{p.origin, p.line, k.name, fmt.Sprintf(format, args...)})
		}
		below, want := k.in(&m.cfg), k.in(&l.cfg)
		switch {
		case reflect.DeepEqual(below.Interface(), want.Interface()):
		case k.mark == process:
			ignore(ofProcess)
		case k.rule == "append":
			add, ignored := additions(below, want, trusted)
			for _, why := range ignored[:min(len(ignored), maxStrays)] {
				ignore("%s; %s", why, howToTrust)
			}
			if add.Len() > 0 {
				m.set(k, appended(below, add), p)
			}
		case trusted || k.mark == free || k.mark == tighten && k.tightens(below, want):
			m.set(k, want, p)
		case k.mark == tighten:
			ignore("is ignored: a project may only make it stricter, and here %s is in force; %s", show(below), howToTrust)
		default:
			ignore("is ignored: the project is not trusted; %s", howToTrust)
		}
	}
	m.layPatterns(l, trusted)
}

// tightens reports whether want is at least as strict as below.
func (k *key) tightens(below, want reflect.Value) bool {
	switch k.rule {
	case "lower":
		return !less(below, want)
	case "limit":
		return below.IsZero() || !want.IsZero() && !less(below, want)
	case "true":
		return want.Bool() || !below.Bool()
	case "false":
		return !want.Bool() || below.Bool()
	case "order":
		return slices.Index(k.order, want.String()) >= slices.Index(k.order, below.String())
	case "subset":
		return containsAll(below, want)
	case "append":
		_, ignored := additions(below, want, false)
		return containsAll(want, below) && len(ignored) == 0
	default:
		panic("config: " + k.name + " has the unknown rule " + k.rule)
	}
}

func less(a, b reflect.Value) bool {
	if a.CanInt() {
		return a.Int() < b.Int()
	}
	return a.Float() < b.Float()
}

func contains(list, item reflect.Value) bool {
	for i := range list.Len() {
		if reflect.DeepEqual(list.Index(i).Interface(), item.Interface()) {
			return true
		}
	}
	return false
}

func containsAll(list, items reflect.Value) bool {
	for i := range items.Len() {
		if !contains(list, items.Index(i)) {
			return false
		}
	}
	return true
}

// additions returns the items of want that are not below and may be added, and
// the reason for each that may not.
func additions(below, want reflect.Value, trusted bool) (add reflect.Value, ignored []string) {
	add = reflect.MakeSlice(want.Type(), 0, want.Len())
	for i := range want.Len() {
		item := want.Index(i)
		if contains(below, item) || contains(add, item) {
			continue
		}
		if why := loosens(below, item); why != "" && !trusted {
			ignored = append(ignored, fmt.Sprintf("[%d] is ignored: %s", i, why))
			continue
		}
		add = reflect.Append(add, item)
	}
	return add, ignored
}

// loosens says why adding item to the rules below could allow something that is
// refused without it, or "".
func loosens(below, item reflect.Value) string {
	switch rule := item.Interface().(type) {
	case AccessRule:
		if rule.Action != "deny" {
			return "a project may only add rules that deny"
		}
	case ContentRule:
		if rule.Action == "deny" {
			return ""
		}
		// It would decide before a rule that denies and let the rest through.
		for i := range below.Len() {
			if other := below.Index(i).Interface().(ContentRule); other.Action == "deny" && other.Priority <= rule.Priority {
				return fmt.Sprintf("its priority must be below %d, that of a rule which denies", other.Priority)
			}
		}
	}
	return ""
}

func appended(list, add reflect.Value) reflect.Value {
	all := reflect.MakeSlice(list.Type(), 0, list.Len()+add.Len())
	return reflect.AppendSlice(reflect.AppendSlice(all, list), add)
}

// layPatterns lays shell.deny_patterns and its mode, which only mean something
// together.
func (m *merged) layPatterns(l *layer, trusted bool) {
	list, mode := settings().find("shell.deny_patterns"), settings().find("shell.deny_patterns_mode")
	listAt, hasList := l.has[list]
	modeAt, hasMode := l.has[mode]
	if !hasList && !hasMode {
		return
	}
	want := "extend"
	if hasMode {
		want = l.cfg.Shell.DenyPatternsMode
	}
	if want != "extend" && !trusted {
		m.warnings = append(m.warnings, Warning{
			modeAt.origin, modeAt.line, mode.name,
			fmt.Sprintf("%s is ignored: a project may only extend; %s", want, howToTrust),
		})
		want = "extend"
	}
	shell := &m.cfg.Shell
	switch want {
	case "disable":
		shell.DenyPatternsMode = want
		m.origins[mode] = modeAt.origin
	case "replace":
		shell.DenyPatternsMode, shell.DenyPatterns = want, l.cfg.Shell.DenyPatterns
		m.origins[mode], m.origins[list] = modeAt.origin, modeAt.origin
	default:
		below := refusing(shell)
		all := slices.Clone(below)
		for _, p := range l.cfg.Shell.DenyPatterns {
			if !slices.ContainsFunc(all, func(q DenyPattern) bool { return reflect.DeepEqual(p, q) }) {
				all = append(all, p)
			}
		}
		if len(all) == len(below) {
			return
		}
		if shell.DenyPatternsMode == "disable" {
			shell.DenyPatternsMode = "replace" // the built-in set stays off, these are on
			m.origins[mode] = listAt.origin
		}
		shell.DenyPatterns = all
		m.origins[list] = listAt.origin
	}
}

// refusing returns the patterns that are in force, beside the built-in set.
func refusing(s *Shell) []DenyPattern {
	if s.DenyPatternsMode == "disable" {
		return nil
	}
	return s.DenyPatterns
}

// looser lists the keys in which next allows more than prev, or differs where
// there is no telling.
func looser(prev, next *Config) []string {
	var names []string
	for _, k := range settings().keys {
		a, b := k.in(prev), k.in(next)
		if !reflect.DeepEqual(a.Interface(), b.Interface()) && k.looser(prev, next) {
			names = append(names, k.name)
		}
	}
	return names
}

func patternsLooser(prev, next *Shell) bool {
	if prev.DenyPatternsMode == "extend" && next.DenyPatternsMode != "extend" {
		return true // the built-in set was on
	}
	return !containsAll(reflect.ValueOf(refusing(next)), reflect.ValueOf(refusing(prev)))
}

// looserFile lists the keys in which a project's file after an update could
// allow more than before it, over some settings of the user and under some of
// the environment and the command line: those of today may hide what those of
// tomorrow let through. Trust is the same before and after.
func looserFile(before, after *layer, trusted bool) []string {
	var names []string
	for _, k := range settings().keys {
		if !k.staysStrict(before, after, trusted) {
			names = append(names, k.name)
		}
	}
	return names
}

// staysStrict reports whether the file after is at least as strict in k as the
// one before, whatever lies below. A trusted file's value goes before the one
// below; an untrusted file's value only when it is stricter.
func (k *key) staysStrict(before, after *layer, trusted bool) bool {
	_, had := before.has[k]
	_, has := after.has[k]
	was, is := k.in(&before.cfg), k.in(&after.cfg)
	switch {
	case k.mark == free || k.mark == process || !had && !has:
		return true
	case k.rule == "patterns":
		prev, next := before.cfg.Shell, after.cfg.Shell
		if !trusted { // the mode is not applied
			prev.DenyPatternsMode, next.DenyPatternsMode = "extend", "extend"
		}
		return !patternsLooser(&prev, &next)
	case had && has && reflect.DeepEqual(was.Interface(), is.Interface()):
		return true
	case k.mark == never:
		return !trusted // it is not applied
	case k.rule == "append":
		if !had {
			was = reflect.Zero(k.typ)
		}
		if !has {
			is = reflect.Zero(k.typ)
		}
		return k.tightens(was, is) && (!trusted || addsDenials(was, is))
	case had && has:
		return k.tightens(was, is)
	case has:
		return !trusted || k.strictest(is)
	default:
		return k.loosest(was)
	}
}

// addsDenials reports whether no list below could be loosened by the items that
// is has and was has not.
func addsDenials(was, is reflect.Value) bool {
	for i := range is.Len() {
		item := is.Index(i)
		if contains(was, item) {
			continue
		}
		if rule, ok := reflect.TypeAssert[ContentRule](item); ok && rule.Action != "deny" {
			return false // it could decide before one that denies
		}
	}
	return true
}

// strictest reports whether nothing is stricter than v.
func (k *key) strictest(v reflect.Value) bool {
	switch k.rule {
	case "true":
		return v.Bool()
	case "false":
		return !v.Bool()
	case "order":
		return v.String() == last(k.order)
	case "subset":
		return v.Len() == 0
	default:
		return false
	}
}

// loosest reports whether nothing is looser than v.
func (k *key) loosest(v reflect.Value) bool {
	switch k.rule {
	case "true":
		return !v.Bool()
	case "false":
		return v.Bool()
	case "order":
		return v.String() == k.order[0]
	case "limit":
		return v.IsZero()
	default:
		return false
	}
}
