package history_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

// helpers are what the test binary does instead of testing when helperEnv names
// one: tests that need a process of its own start it again.
var helpers = map[string]func(file string) error{
	"put":    helpPut,
	"status": helpStatus,
	"full":   helpFull,
}

const (
	helperEnv = "HISTORY_TEST_HELPER"
	fileEnv   = "HISTORY_TEST_FILE"
	firstEnv  = "HISTORY_TEST_FIRST"
)

func TestMain(m *testing.M) {
	if help := helpers[os.Getenv(helperEnv)]; help != nil {
		if err := help(os.Getenv(fileEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// helpPut puts contents for ever, and tells the number of each that is flushed.
func helpPut(file string) error {
	first, err := strconv.Atoi(os.Getenv(firstEnv))
	if err != nil {
		return err
	}
	s := history.New(history.Options{File: file, MemoryBytes: 1 << 20})
	if err := s.Open(context.Background()); err != nil {
		return err
	}
	go s.Run(context.Background())
	out := bufio.NewWriter(os.Stdout)
	for i := first; ; i++ {
		put(s, "child", numbered(i), noise(i, 3000))
		if i%3 == 0 {
			continue // left to the worker
		}
		if err := s.Flush(context.Background()); err != nil {
			return err
		}
		fmt.Fprintln(out, i)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// numbered is the file that content i belongs to.
func numbered(i int) string { return fmt.Sprint("/p/", i%5) }

// helpStatus opens a store, uses it, and tells how it is.
func helpStatus(file string) error {
	s := history.New(history.Options{File: file})
	if err := s.Open(context.Background()); err != nil {
		return err
	}
	put(s, "child", "/p/a", "one")
	if !has(s, "/p/a", "one") {
		return fmt.Errorf("the content is not there")
	}
	st := s.Status()
	fmt.Printf("file=%q\n", st.File)
	for _, f := range st.Findings {
		fmt.Printf("%s: %s | %s\n", f.Part, f.Detail, f.Cure)
	}
	return s.Close(context.Background())
}
