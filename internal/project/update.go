package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// Update sets keys in the configuration file of the call's project. It may only
// tighten; in a trusted project it may also loosen, once the person at the
// client has said so. What it did not have to ask about lets no more through
// than the bytes a person vouched for, whatever the user's settings become, so
// trust goes over to the new bytes.
func (r *Registry) Update(ctx context.Context, set map[string]json.RawMessage) (*Active, *config.Change, error) {
	a, err := r.Current(ctx)
	if err != nil {
		return nil, nil, err
	}
	change, err := r.launch(ctx).Settings.Update(a.Root, set, false)
	if looser, ok := errors.AsType[*config.LooserError](err); ok {
		if err := r.confirm(ctx, a, set, looser); err != nil {
			return nil, nil, err
		}
		change, err = r.launch(ctx).Settings.Update(a.Root, set, true)
	}
	if err != nil {
		return nil, nil, updateFault(a, err)
	}
	if change.WasTrusted && !r.launch(ctx).launched(a.Root) && r.opts.Trust != nil {
		if err := r.opts.Trust.renew(a.Root, change.OldSum, change.Content); err != nil {
			r.opts.Logger.Warn("trust not renewed after an update", "root", a.Root, "err", err)
		}
	}
	r.launch(ctx).Settings.Reload()
	r.opts.Logger.Info("project settings changed", "project", a.ID, "keys", change.Keys, "caller", caller.From(ctx).String())
	return a, change, nil
}

const confirmSchema = `{"type":"object","properties":{"allow":{"type":"boolean","title":"Allow this change","description":"It can make the project's policy less strict."}},"required":["allow"]}`

// confirm asks the person whether the policy may be loosened.
func (r *Registry) confirm(ctx context.Context, a *Active, set map[string]json.RawMessage, looser *config.LooserError) error {
	if !looser.Trusted {
		return fault.New(fault.NotTrusted, "%v, and the project is not trusted", looser).At(a.Root).With("keys", looser.Keys)
	}
	var what []string
	for _, key := range slices.Sorted(maps.Keys(set)) {
		what = append(what, key+" = "+string(set[key]))
	}
	answer, err := caller.Elicit(ctx, caller.Question{
		Key:     "loosen",
		Message: fmt.Sprintf("%s asks to change the settings of %s: %s. You are asked because %s. Allow it?", caller.From(ctx), a.Root, strings.Join(what, ", "), looser.Reason),
		Schema:  json.RawMessage(confirmSchema),
	})
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		return need
	}
	refused := func(why string) error {
		return fault.New(fault.ConfirmationRequired, "%v, so a person must confirm it, %s", looser, why).At(a.Root).With("keys", looser.Keys).
			With("next", "Ask the person to make this change themselves, in the project's configuration followed by async-crud-mcp trust.")
	}
	var form struct {
		Allow bool `json:"allow"`
	}
	switch {
	case errors.Is(err, caller.ErrCannotAsk):
		return refused("and this client cannot ask")
	case err != nil:
		return refused("and asking did not work: " + err.Error())
	case !answer.Accepted || json.Unmarshal(answer.Content, &form) != nil || !form.Allow:
		return refused("and did not")
	}
	return nil
}

// updateFault gives what went wrong with an update its code.
func updateFault(a *Active, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return &fault.Error{Code: fault.WriteError, Op: "update_config", Path: a.Root, Message: "the configuration was not written: " + err.Error(), Err: err}
	}
	return &fault.Error{Code: fault.ValidationError, Op: "update_config", Path: a.Root, Message: err.Error(), Err: err}
}
