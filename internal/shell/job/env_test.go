package job

import (
	"errors"
	"reflect"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

func TestEnvironment(t *testing.T) {
	inherit := []string{"HOME=/h", "PWD=/old", "GITHUB_TOKEN=t", "CLAUDECODE=1", "A=1", "A=2", "EMPTY=", "junk", "EQ=a=b", "dir/SECRET/x=1"}
	for _, c := range []struct {
		name     string
		o        EnvOptions
		want     []string
		stripped []string
	}{
		{"inherited, the last one counts", EnvOptions{Inherit: inherit[:7]}, []string{"A=2", "CLAUDECODE=1", "EMPTY=", "GITHUB_TOKEN=t", "HOME=/h", "PWD=/old"}, nil},
		{"nothing inherited", EnvOptions{Set: map[string]string{"X": "1"}, Dir: "/d"}, []string{"PWD=/d", "X=1"}, nil},
		{"the caller wins", EnvOptions{Inherit: []string{"A=1"}, Set: map[string]string{"A": "2"}}, []string{"A=2"}, nil},
		{
			"stripped after merging, in any case",
			EnvOptions{
				Inherit: inherit, Set: map[string]string{"claudecode": "x", "my_token": "y", "B": "3"},
				Strip: []string{"CLAUDECODE", "*_TOKEN", "*Secret*", "JUNK"}, Dir: "/d",
			},
			[]string{"A=2", "B=3", "EMPTY=", "EQ=a=b", "HOME=/h", "PWD=/d"},
			[]string{"CLAUDECODE", "GITHUB_TOKEN", "claudecode", "dir/SECRET/x", "my_token"},
		},
		{"PWD is ours", EnvOptions{Inherit: inherit[:2], Strip: []string{"*"}, Dir: "/d"}, []string{"PWD=/d"}, []string{"HOME", "PWD"}},
	} {
		got, stripped, err := Environment(c.o)
		if err != nil || !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(stripped, c.stripped) {
			t.Errorf("%s: %q, stripped %q, %v\nwant %q, %q", c.name, got, stripped, err, c.want, c.stripped)
		}
	}
}

func TestEnvironmentRefuses(t *testing.T) {
	for _, name := range []string{"", "A=B", "A\nB", "A\x00"} {
		if _, _, err := Environment(EnvOptions{Set: map[string]string{name: "1"}}); fault.CodeOf(err) != fault.ValidationError {
			t.Errorf("name %q: %v, want VALIDATION_ERROR", name, err)
		}
	}
	if _, _, err := Environment(EnvOptions{Set: map[string]string{"A": "1\x002"}}); fault.CodeOf(err) != fault.ValidationError {
		t.Errorf("a value with a NUL: %v, want VALIDATION_ERROR", err)
	}
	if _, _, err := Environment(EnvOptions{Inherit: []string{"A=1"}, Strip: []string{"["}}); err == nil {
		t.Error("a glob that is none was taken")
	}
	refuse := func(name, value string) string {
		if name == "LD_PRELOAD" {
			return "it would load " + value
		}
		return ""
	}
	// What is inherited is not the caller's asking.
	if _, _, err := Environment(EnvOptions{Inherit: []string{"LD_PRELOAD=x"}, Set: map[string]string{"A": "1"}, Refuse: refuse}); err != nil {
		t.Error(err)
	}
	_, _, err := Environment(EnvOptions{Set: map[string]string{"LD_PRELOAD": "x.so"}, Refuse: refuse})
	if e, ok := errors.AsType[*EnvRefused](err); !ok || e.Name != "LD_PRELOAD" || e.Reason != "it would load x.so" {
		t.Errorf("error = %v, want a refusal", err)
	}
}
