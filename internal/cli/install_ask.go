package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// asker puts questions to the person at the terminal.
type asker struct {
	t  *terminal
	in *bufio.Reader
}

func newAsker(t *terminal) *asker { return &asker{t: t, in: bufio.NewReader(t.in)} }

var errNoAnswer = &failure{code: exitFailed, err: errors.New("no answer; nothing was changed")}

// line asks for a text; an empty answer is the one given.
func (a *asker) line(question, given string) (string, error) {
	shown := given
	if shown == "" {
		shown = "none"
	}
	_, _ = fmt.Fprintf(a.t.err, "%s %s ", question, paint(a.t.err, faint, "["+shown+"]"))
	text, err := a.in.ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || text == "") {
		_, _ = fmt.Fprintln(a.t.err)
		return "", errNoAnswer
	}
	if text = strings.TrimSpace(text); text == "" {
		return given, nil
	}
	return text, nil
}

// yes asks for a decision.
func (a *asker) yes(question string, given bool) (bool, error) {
	for {
		text, err := a.line(question+" (yes or no)", map[bool]string{true: "yes", false: "no"}[given])
		if err != nil {
			return false, err
		}
		switch strings.ToLower(text) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
		a.t.say("please answer yes or no")
	}
}

// confirm asks whether to go on. Without a terminal nobody can be asked, and the
// flag --yes has to say so.
func confirm(t *terminal, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(t.in) {
		return needsYes()
	}
	return newAsker(t).confirm(question)
}

func (a *asker) confirm(question string) error {
	ok, err := a.yes(question, true)
	if err == nil && !ok {
		return &failure{code: exitFailed, err: errors.New("nothing was changed")}
	}
	return err
}

func needsYes() error {
	return &failure{code: exitUsage, err: errors.New("there is no terminal to ask at; nothing was changed"), next: "add --yes to go on without questions"}
}
