package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestSeeTellsEveryCommandAndWhatRunsBesideThem(t *testing.T) {
	for text, want := range map[string]struct{ commands, unseen string }{
		"git status":                         {"git status", ""},
		"ls -l | grep x > out":               {"ls -l; grep x > out", ""},
		"nice timeout 5 ls":                  {"nice timeout 5 ls; timeout 5 ls; ls", ""},
		"find . -name a -exec rm {} \\;":     {"find . -name a -exec rm {} ';'; rm ${…}", ""},
		"find . -ok rm x +":                  {"find . -ok rm x +; rm x", ""},
		"fd -e go -x wc -l":                  {"fd -e go -x wc -l; wc -l", ""},
		"rg --pre evil x":                    {"rg --pre evil x; evil ${…}", ""},
		"rg --files --pre=evil":              {"rg --files --pre=evil; evil ${…}", ""},
		"rg --hostname-bin evil x":           {"rg --hostname-bin evil x; evil ${…}", ""},
		"sort -o f --compress-program=evil":  {"sort -o f --compress-program=evil; evil", ""},
		"tar xf a --to-command=evil":         {"tar xf a --to-command=evil; evil", ""},
		"sed -i e\\ evil f":                  {"sed -i 'e evil' f; evil", ""},
		"git -c core.pager=less log":         {"git -c core.pager=less log; less", ""},
		"git grep --no-index -Oevil x":       {"git grep --no-index -Oevil x; evil ${…}", ""},
		"git -c alias.x='!evil' x":           {"git -c alias.x=!evil x", "git-command"},
		"$X y":                               {"${…} y", "computed-name"},
		"bash -c \"$X\"":                     {"bash -c ${…}", "computed-script"},
		"LD_PRELOAD=x ls":                    {"LD_PRELOAD=x ls", "environment"},
		"python3 -c 'import os; os.fork()'":  {"python3 -c 'import os; os.fork()'", "one-liner"},
		"awk 'BEGIN { print > \"f\" }'":      {`awk 'BEGIN { print > "f" }'`, "filter-program"},
		"vim -c '!evil' f":                   {"vim -c !evil f", "editor"},
		"async-crud-mcp trust .":             {"async-crud-mcp trust .", "own-program"},
		"A=1; cat /etc/passwd; mkdir x; > f": {"A=1; cat /etc/passwd; mkdir x; > f", ""},
	} {
		s := See(text)
		var commands, unseen []string
		for _, c := range s.Commands {
			commands = append(commands, c.Text)
		}
		for _, d := range s.Unseen {
			unseen = append(unseen, d.Rule)
		}
		slices.Sort(unseen)
		if got := strings.Join(commands, "; "); got != want.commands || strings.Join(slices.Compact(unseen), " ") != want.unseen || s.Unreadable != nil {
			t.Errorf("%s\n got %s (%v, %v)\nwant %s (%s)", text, got, unseen, s.Unreadable, want.commands, want.unseen)
		}
	}
	if s := See("sh -c 'if'"); s.Unreadable == nil {
		t.Error("text inside that does not parse was read")
	}
}
