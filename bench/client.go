package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// The clients here cost as little as they can: requests are built beforehand,
// answers are read and hardly looked at.

const (
	oldVersion = "2025-11-25"
	newVersion = "2026-07-28"
	hello      = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + oldVersion + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	ready      = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	listTools  = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

// client makes one call at a time.
type client interface {
	// call sends a request and returns its answer, valid until the next call.
	call(request []byte) ([]byte, error)
	close() error
	pid() int
}

// child is a server process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr said
}

// said is what a server says on its standard error, while it says more.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stdioClient talks to a child on its standard streams.
type stdioClient struct {
	child
	line []byte // of the last request
	long []byte // of the last answer that did not fit into the reader's buffer
}

func startStdio(ctx context.Context, argv, env []string) (*stdioClient, error) {
	c := &stdioClient{}
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.cmd.Dir = os.TempDir() // the same for everybody, whatever project this is started in
	c.cmd.Env = env
	c.cmd.Stderr = &c.stderr
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdout = bufio.NewReaderSize(stdout, 1<<20)
	return c, c.cmd.Start()
}

// greet makes the handshake of the older protocol versions.
func (c *stdioClient) greet() error {
	if _, err := c.call([]byte(hello)); err != nil {
		return err
	}
	_, err := c.stdin.Write([]byte(ready + "\n"))
	return err
}

func (c *stdioClient) call(request []byte) ([]byte, error) {
	c.line = append(append(c.line[:0], request...), '\n')
	if _, err := c.stdin.Write(c.line); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, c.stderr.String())
	}
	for {
		line, err := c.readLine()
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, c.stderr.String())
		}
		if idOf(line) >= 0 {
			return line, nil
		} // else a notification
	}
}

// readLine reads a line of any length, valid until the next one is read.
func (c *stdioClient) readLine() ([]byte, error) {
	line, err := c.stdout.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	c.long = append(c.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = c.stdout.ReadSlice('\n')
		c.long = append(c.long, line...)
	}
	return c.long, err
}

func (c *stdioClient) close() error {
	if err := c.stdin.Close(); err != nil {
		return err
	}
	return c.cmd.Wait()
}

// httpClient talks to a child on one connection that stays open.
type httpClient struct {
	child
	conn   net.Conn
	in     *bufio.Reader
	header string // of every request, without its length
	body   bytes.Buffer
	out    []byte
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// startHTTP starts a server and connects to path. With greeting it makes the
// handshake of the older protocol versions and stays in that session.
func startHTTP(ctx context.Context, argv, env []string, path string, greeting bool) (*httpClient, error) {
	c := &httpClient{}
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.cmd.Env = env
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	var address string
	for address == "" && lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
		fmt.Fprintln(&c.stderr, lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }() // ends with the child
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return nil, errors.Join(err, fmt.Errorf("the server does not listen\n%s", c.stderr.String()))
	}
	if c.conn, err = new(net.Dialer).DialContext(ctx, "tcp", u.Host); err != nil {
		return nil, err
	}
	c.in = bufio.NewReaderSize(c.conn, 1<<20)
	common := "POST " + path + " HTTP/1.1\r\nHost: " + u.Host + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	if !greeting {
		c.header = common + "Mcp-Protocol-Version: " + newVersion + "\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
		return c, nil
	}
	c.header = common
	session, err := c.post([]byte(hello))
	if err != nil {
		return nil, err
	}
	c.header = common + "Mcp-Protocol-Version: " + oldVersion + "\r\nMcp-Session-Id: " + session + "\r\n"
	_, err = c.post([]byte(ready))
	return c, err
}

// post sends a body, reads the whole answer and returns the session it names.
func (c *httpClient) post(request []byte) (session string, err error) {
	c.out = append(c.out[:0], c.header...)
	c.out = fmt.Appendf(c.out, "Content-Length: %d\r\n\r\n", len(request))
	c.out = append(c.out, request...)
	if _, err := c.conn.Write(c.out); err != nil {
		return "", err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	c.body.Reset()
	if _, err := c.body.ReadFrom(res.Body); err != nil {
		return "", err
	}
	if res.StatusCode/100 != 2 {
		return "", fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(c.body.String()))
	}
	return res.Header.Get("Mcp-Session-Id"), nil
}

func (c *httpClient) call(request []byte) ([]byte, error) {
	_, err := c.post(request)
	return c.body.Bytes(), err
}

func (c *httpClient) close() error {
	if err := c.conn.Close(); err != nil {
		return err
	}
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = c.cmd.Wait() // says that it was killed
	return nil
}

// echoCall is a call of the echo tool with a text of n bytes that looks like
// source code: lines, tabs and quotes.
func echoCall(n int, modern bool) []byte {
	const line = "\tif err := run(ctx, \"echo\", n); err != nil { return err } // as source code is\n"
	text := strings.Repeat(line, n/len(line)+1)[:n]
	meta := ""
	if modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + newVersion + `","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":%s}%s}}`, quote(text), meta)
}

func quote(s string) string {
	return `"` + strings.NewReplacer("\n", `\n`, "\t", `\t`, `"`, `\"`).Replace(s) + `"`
}

// settle lets a process come to rest before its memory is looked at.
func settle(ctx context.Context) {
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done():
	}
}
