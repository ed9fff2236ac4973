package policy

import "github.com/async-crud-mcp/async-crud-mcp/internal/shellast"

// unseen are the rules about what runs without being one of the commands that can
// be seen: what is computed, what git, an editor or a variable is told to run,
// what the code of a one-liner does, and this program itself.
const unseen = `computed-name computed-script environment git-command own-program hidden-name one-liner filter-program editor`

// Sight is what can be seen in a text before it runs, for those who have rules of
// their own about each command.
type Sight struct {
	Commands []Command  // every simple command, also inside wrappers, nested shells and substitutions
	Unseen   []Decision // what would run beside them; Rule names the kind
	// Unreadable is not nil if a part of the text cannot be read; then the rest
	// means nothing.
	Unreadable *Decision
}

// See looks at a text of bash without judging it by any rule about files.
func See(text string) Sight {
	var s Sight
	j := &judge{
		set: &Set{mode: Replace}, quiet: true,
		saw:    func(c Command) { s.Commands = append(s.Commands, c) },
		unseen: func(d Decision) { s.Unseen = append(s.Unseen, d) },
	}
	j.script(text, shellast.Options{}, nil)
	s.Unreadable = j.unreadable
	return s
}
