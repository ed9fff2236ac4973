package stress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Fifty hosts that start at the same moment share one daemon.
func TestFiftyStartsMakeOneDaemon(t *testing.T) {
	for seed := range scaled(1, 100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			p := newProject(t)
			daemon := control.Client{Dirs: fsys.Dirs{Config: p.home, Data: p.home, Log: p.home}}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := daemon.Stop(ctx, false); err != nil && !errors.Is(err, control.ErrAbsent) {
					t.Errorf("the daemon does not end: %v", err)
				}
			})
			const starts = 50
			var all, answered sync.WaitGroup
			begin, leave := make(chan struct{}), make(chan struct{})
			answered.Add(starts)
			for range starts {
				all.Go(func() {
					<-begin
					if err := visit(p, &answered, leave); err != nil {
						t.Error(err)
					}
				})
			}
			close(begin)
			answered.Wait()
			status, err := daemon.Status(t.Context())
			if err != nil {
				t.Error(err)
			} else if len(status.Clients) != starts {
				t.Errorf("the daemon has %d clients, want %d", len(status.Clients), starts)
			}
			close(leave)
			all.Wait()
			log, err := os.ReadFile(filepath.Join(p.home, "server.log"))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(log), `"msg":"started"`); n != 1 {
				t.Errorf("%d daemons were started, want 1", n)
			}
		})
	}
}

// visit starts the server as a host does, waits for its first answer, and stays
// until all may leave.
func visit(p *project, answered *sync.WaitGroup, leave <-chan struct{}) error {
	var once sync.Once
	done := func() { once.Do(answered.Done) }
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, plain, "stdio", "--root", p.root)
	cmd.Env = append(os.Environ(), "ASYNC_CRUD_MCP_HOME="+p.home)
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, `"result"`) {
		err = errors.Join(fmt.Errorf("ping = %q; said: %s", line, &said), err)
	}
	done()
	<-leave
	_ = in.Close()
	return errors.Join(err, cmd.Wait())
}
