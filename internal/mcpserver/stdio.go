package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// ServeStdio serves one client on a pair of streams, one JSON-RPC message a
// line, until in ends, out breaks or ctx does. It returns nil in all three
// cases, at most about two seconds later, also when a handler does not stop.
//
// A caller in ctx says what is known of the client beforehand: its limits, and
// agent and project for the calls that name none. A read of in that cannot be
// interrupted may outlast ServeStdio.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	limits := caller.From(ctx)
	if _, err := s.tools.Load().set.Select(tool.Filter{
		Toolsets: limits.Toolsets, Exclude: limits.Exclude, ReadOnly: limits.ReadOnly,
	}, []string{"all"}); err != nil {
		return fmt.Errorf("limits of the session: %w", err)
	}
	sc := newScope()
	sess := s.newSession(ctx, sc, "stdio")
	broken := make(chan error, 1)
	l := newLink(sess, "", func(message []byte) error {
		_, err := out.Write(append(message, '\n'))
		if err != nil {
			select {
			case broken <- err:
			default:
			}
		}
		return err
	})
	sdk, err := s.mcp.Connect(sess.within(context.WithoutCancel(ctx)), l, nil)
	if err != nil {
		return fmt.Errorf("connect stdio: %w", err)
	}
	sess.begin(sdk, "")

	ended := make(chan error, 1)
	go func() { ended <- s.readLines(in, l) }()
	var result error
	select {
	case <-ctx.Done():
		sc.stop(errShutdown)
	case err := <-broken:
		s.log.Debug("stdout is gone", "error", err)
		sc.stop(errGone)
	case err := <-ended:
		ended <- err // for the wait below
		if !errors.Is(err, io.EOF) {
			result = fmt.Errorf("read stdin: %w", err)
		}
		sess.waitQuiet(s.eofGrace)
		sess.end(errGone)
		sc.stop(errGone)
	}
	<-sc.empty
	if d, ok := in.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Unix(1, 0)) == nil {
		<-ended
	}
	return result
}

// readLines gives every line of in to l until in ends. Memory stays within the
// message limit whatever comes.
func (s *Server) readLines(in io.Reader, l *link) error {
	limit := s.opts.MaxMessageBytes
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, long, err := readLine(r, limit)
		var bad *refusal
		if long {
			bad = refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: the message is longer than %d bytes", limit))
			bad.id = peekID(line)
		} else {
			bad = l.accept(line, nil)
		}
		if bad != nil {
			s.log.Debug("message refused", "code", bad.code, "reason", bad.message)
			l.reply(bad)
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads up to a newline or the end. The line is the caller's to keep.
// Of a line beyond limit only the beginning is returned, and long is true.
func readLine(r *bufio.Reader, limit int64) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
			if int64(len(bytes.TrimRight(line, "\r\n"))) > limit {
				long = true
				line = bytes.Clone(line[:min(len(line), peekBytes)])
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// peekBytes is how much of a line that is too long is kept to find its id.
const peekBytes = 4 << 10
