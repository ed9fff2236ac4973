package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// sample is what was seen of one program.
type sample struct {
	times  []time.Duration
	cpu    time.Duration // of the server, for all of times
	idle   memory        // after tools/list
	loaded memory        // after the load
}

// memory is what a process holds, in bytes; zero where the system does not say.
type memory struct{ resident, anonymous uint64 }

func (s *sample) quantile(q float64) time.Duration {
	if len(s.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.times))
	return sorted[min(len(sorted)-1, int(math.Round(q*float64(len(sorted)-1))))]
}

func (s *sample) median() time.Duration { return s.quantile(0.5) }

func (s *sample) cpuPerCall() time.Duration {
	return s.cpu / time.Duration(max(1, len(s.times)))
}

// pair is ours beside the bare one.
type pair struct{ ours, bare sample }

// turn is one of the programs that take turns, and where what is seen of it goes.
type turn struct {
	argv []string
	to   *sample
}

func (p *programs) stdioTurns(out *pair) []turn {
	return []turn{{p.oursStdio(p.ours), &out.ours}, {p.bareStdio("same"), &out.bare}}
}

// measureStarts times processes from their start to the answer of tools/list,
// with the handshake as hosts do it: each message after the answer before it.
func measureStarts(ctx context.Context, p *programs, e effort) (pair, error) {
	var out pair
	for range e.starts {
		for _, turn := range p.stdioTurns(&out) {
			begin := time.Now()
			c, err := startStdio(ctx, turn.argv, p.env)
			if err != nil {
				return out, err
			}
			if err := c.greet(); err != nil {
				return out, err
			}
			if _, err := c.call([]byte(listTools)); err != nil {
				return out, err
			}
			turn.to.times = append(turn.to.times, time.Since(begin))
			if err := c.close(); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// listing is what an agent pays for before it has done anything.
type listing struct {
	tools int
	bytes int // of the whole result
	agent int // of names, texts and input schemas, which is what a model reads
	idle  pair
}

func measureList(ctx context.Context, p *programs) (listing, error) {
	var out listing
	for _, turn := range p.stdioTurns(&out.idle) {
		c, err := startStdio(ctx, turn.argv, p.env)
		if err != nil {
			return out, err
		}
		if err := c.greet(); err != nil {
			return out, err
		}
		answer, err := c.call([]byte(listTools))
		if err != nil {
			return out, err
		}
		if turn.to == &out.idle.ours {
			if err := out.read(answer); err != nil {
				return out, err
			}
		}
		settle(ctx)
		turn.to.idle = memoryOf(c.pid())
		if err := c.close(); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (l *listing) read(answer []byte) error {
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return err
	}
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(m.Result, &list); err != nil {
		return err
	}
	l.tools, l.bytes = len(list.Tools), len(m.Result)
	for _, t := range list.Tools {
		l.agent += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	return nil
}

// way is a transport and protocol era.
type way struct {
	name   string
	modern bool
	ours   func(ctx context.Context, p *programs) (client, error)
	bare   func(ctx context.Context, p *programs, answer string) (client, error)
}

var ways = []way{
	{
		name: "stdio",
		ours: func(ctx context.Context, p *programs) (client, error) {
			return greeted(startStdio(ctx, p.oursStdio(p.oursTag), p.env))
		},
		bare: func(ctx context.Context, p *programs, answer string) (client, error) {
			return greeted(startStdio(ctx, p.bareStdio(answer), p.env))
		},
	},
	{
		name: "HTTP " + oldVersion,
		ours: func(ctx context.Context, p *programs) (client, error) {
			return startHTTP(ctx, p.oursHTTP(p.oursTag), p.env, "/mcp", true)
		},
		bare: func(ctx context.Context, p *programs, answer string) (client, error) {
			return startHTTP(ctx, p.bareHTTP(answer), p.env, "/old", true)
		},
	},
	{
		name: "HTTP " + newVersion, modern: true,
		ours: func(ctx context.Context, p *programs) (client, error) {
			return startHTTP(ctx, p.oursHTTP(p.oursTag), p.env, "/mcp", false)
		},
		bare: func(ctx context.Context, p *programs, answer string) (client, error) {
			return startHTTP(ctx, p.bareHTTP(answer), p.env, "/new", false)
		},
	},
}

func greeted(c *stdioClient, err error) (client, error) {
	if err != nil {
		return nil, err
	}
	return c, c.greet()
}

// load is one way under one size of call.
type load struct {
	way  string
	size string
	pair
	thin sample // the bare one when it answers with the text alone
}

func measureLoad(ctx context.Context, p *programs, w way, e effort) (out []load, err error) {
	var clients []client // ours, bare, thin
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.close())
		}
	}()
	for _, start := range []func() (client, error){
		func() (client, error) { return w.ours(ctx, p) },
		func() (client, error) { return w.bare(ctx, p, "same") },
		func() (client, error) { return w.bare(ctx, p, "thin") },
	} {
		c, err := start()
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	for _, size := range []struct {
		name  string
		bytes int
		calls int
	}{{"1 KB", 1 << 10, e.small}, {"100 KB", 100 << 10, e.large}} {
		l := load{way: w.name, size: size.name}
		samples := []*sample{&l.ours, &l.bare, &l.thin}
		request := echoCall(size.bytes, w.modern)
		for round := range e.rounds + 1 {
			for i := range clients {
				i = (i + round) % len(clients) // nobody is always first
				to := samples[i]
				if round == 0 {
					to = new(sample) // to warm up
				}
				if err := burst(clients[i], request, size.bytes, size.calls, to); err != nil {
					return nil, err
				}
			}
		}
		settle(ctx)
		for i, c := range clients {
			samples[i].loaded = memoryOf(c.pid())
		}
		out = append(out, l)
	}
	return out, nil
}

// burst makes calls one after the other and adds what it saw to s.
func burst(c client, request []byte, size, calls int, s *sample) error {
	before := cpuOf(c.pid())
	for range calls {
		begin := time.Now()
		answer, err := c.call(request)
		if err != nil {
			return err
		}
		s.times = append(s.times, time.Since(begin))
		if len(answer) < size || bytes.Contains(answer[len(answer)-64:], []byte(`"error"`)) {
			return fmt.Errorf("unexpected answer: %.300s", answer)
		}
	}
	s.cpu += cpuOf(c.pid()) - before
	return nil
}
