package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

func TestEveryCodeHasMeaningAndNextStep(t *testing.T) {
	seen := make(map[fault.Code]bool)
	for _, i := range fault.Table() {
		if seen[i.Code] {
			t.Errorf("%s stands twice in the table", i.Code)
		}
		seen[i.Code] = true
		if i.Meaning == "" || i.Next == "" || i.HTTP < 400 {
			t.Errorf("%s is not fully explained: %+v", i.Code, i)
		}
		if string(i.Code) != strings.ToUpper(string(i.Code)) {
			t.Errorf("%s is not upper case", i.Code)
		}
	}
	// The codes that the specifications name, word for word.
	for c := range strings.FieldsSeq(`FILE_NOT_FOUND FILE_EXISTS ACCESS_DENIED PATH_OUTSIDE_BASE LOCK_TIMEOUT
		ENCODING_ERROR INVALID_PATCH CONTENT_OR_PATCHES_REQUIRED FILE_TOO_LARGE WRITE_ERROR DELETE_ERROR RENAME_ERROR
		DIR_NOT_FOUND SERVER_ERROR COMMAND_DENIED COMMAND_TIMEOUT SHELL_DISABLED SEARCH_DISABLED TASK_NOT_FOUND
		INVALID_PATTERN SHELL_NOT_INSTALLED BLOCKED_COMMAND WORKING_DIR_ESCAPE WORKING_DIR_NOT_FOUND JOB_NOT_FOUND
		JOB_NOT_RUNNING BACKGROUND_NOT_CONFIGURED VALIDATION_ERROR NO_PROJECT_ACTIVATED IS_A_DIRECTORY
		NOT_A_REGULAR_FILE CONTENT_BLOCKED REDACTION_MARKERS_PRESENT TOO_MANY_JOBS RATE_LIMITED ALIAS_NOT_FOUND
		ALIAS_UNSAFE CONFIRMATION_REQUIRED NOT_TRUSTED`) {
		if !seen[fault.Code(c)] {
			t.Errorf("%s is missing from the table", c)
		}
		delete(seen, fault.Code(c))
	}
	for c := range seen {
		t.Errorf("%s is in the table and in no specification", c)
	}
}

func TestFromKeepsCodesAndHidesCauses(t *testing.T) {
	coded := fault.New(fault.FileNotFound, "no file %s: %w", "a.go", fs.ErrNotExist).At("a.go")
	wrapped := fmt.Errorf("read: %w", coded)
	if got := fault.From(wrapped); got != coded {
		t.Errorf("From(wrapped) = %v, want the coded error", got)
	}
	if !errors.Is(wrapped, fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
	secret := errors.New("password hunter2")
	got := fault.From(secret)
	if got.Code != fault.ServerError || strings.Contains(got.Text(), "hunter2") || !errors.Is(got, secret) {
		t.Errorf("From(plain) = %q (%s), want SERVER_ERROR that hides and keeps its cause", got.Text(), got.Code)
	}
	if fault.CodeOf(nil) != "" || fault.CodeOf(wrapped) != fault.FileNotFound {
		t.Error("CodeOf is wrong")
	}
}

func TestTextFallsBackToCauseThenMeaning(t *testing.T) {
	if got := (&fault.Error{Code: fault.WriteError, Err: errors.New("disk full")}).Text(); got != "disk full" {
		t.Errorf("Text = %q, want the cause", got)
	}
	if got := (&fault.Error{Code: fault.FileExists, Op: "write"}).Error(); got != "write: FILE_EXISTS: The file exists already." {
		t.Errorf("Error = %q", got)
	}
	if got := fault.Describe("NO_SUCH_CODE"); got.Code != "NO_SUCH_CODE" || got.HTTP != 500 {
		t.Errorf("Describe(unknown) = %+v", got)
	}
}
