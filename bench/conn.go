package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// call is a tool call.
type call struct {
	tool string
	args map[string]any
}

func (c call) request(id int) ([]byte, error) {
	args, err := json.Marshal(c.args)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, c.tool, args), nil
}

// do makes one call on a connection that nobody else uses.
func (c *stdioClient) do(one call) ([]byte, error) {
	request, err := one.request(7)
	if err != nil {
		return nil, err
	}
	return c.call(request)
}

// idOf returns the id of an answer, which stands at one of its ends; -1 for what
// is no answer.
func idOf(line []byte) int {
	line = bytes.TrimSpace(line)
	mark := []byte(`"id":`)
	at := bytes.Index(line[:min(len(line), 64)], mark)
	if at < 0 {
		tail := max(0, len(line)-64)
		if at = bytes.LastIndex(line[tail:], mark); at < 0 {
			return -1
		}
		at += tail
	}
	digits := line[at+len(mark):]
	end := 0
	for end < len(digits) && '0' <= digits[end] && digits[end] <= '9' {
		end++
	}
	id, err := strconv.Atoi(string(digits[:end]))
	if err != nil {
		return -1
	}
	return id
}

// shared is a connection with several calls on the way at once.
type shared struct {
	*stdioClient
	mu      sync.Mutex // also for writing
	last    int
	waiting map[int]chan []byte // guarded by mu; nil: the connection has ended
	ended   chan struct{}
	err     error // why, once ended is closed
}

func share(c *stdioClient) *shared {
	s := &shared{stdioClient: c, last: 100, waiting: make(map[int]chan []byte), ended: make(chan struct{})}
	go s.read()
	return s
}

// read hands answers to who waits for them, until the server ends.
func (s *shared) read() {
	defer close(s.ended)
	for {
		line, err := s.readLine()
		if err != nil {
			s.err = fmt.Errorf("%w\n%s", err, s.stderr.String())
			return
		}
		s.mu.Lock()
		id := idOf(line)
		answer := s.waiting[id]
		delete(s.waiting, id)
		s.mu.Unlock()
		if answer != nil {
			answer <- bytes.Clone(line)
		}
	}
}

// send makes a call and returns where its answer will come.
func (s *shared) send(one call) (<-chan []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	request, err := one.request(s.last)
	if err != nil {
		return nil, err
	}
	answer := make(chan []byte, 1)
	s.waiting[s.last] = answer
	_, err = s.stdin.Write(append(request, '\n'))
	return answer, err
}

// do makes a call and waits for its answer.
func (s *shared) do(ctx context.Context, one call) ([]byte, error) {
	answer, err := s.send(one)
	if err != nil {
		return nil, err
	}
	select {
	case line := <-answer:
		return line, nil
	case <-s.ended:
		return nil, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// close ends the server and waits for what reads from it.
func (s *shared) close() error {
	err := s.stdin.Close()
	<-s.ended
	_ = s.cmd.Wait() // a server may be ended by its way out
	return err
}
