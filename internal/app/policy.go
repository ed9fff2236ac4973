package app

import (
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
)

// Judge says what the policy of the project at root thinks of a command, without
// running anything.
func (a *App) Judge(root, text string, d policy.Dialect) (policy.Decision, error) {
	settings := a.Settings.Project(root)
	defer settings.Release()
	rules, err := rulesOf(settings.Current().Config)
	if err != nil {
		return policy.Decision{}, err
	}
	return rules.Script(text, d), nil
}
