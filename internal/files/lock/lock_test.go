package lock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTable(t *testing.T) {
	locktest.Run(t, func(*testing.T) locktest.Locker { return new(lock.Table) })
}
