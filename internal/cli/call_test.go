package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
)

func TestServersAreLookedForWhereTheyListen(t *testing.T) {
	port := func(n int) *int { return &n }
	for _, c := range []struct {
		host string
		port *int
		want string
	}{
		{"127.0.0.1", port(8720), "127.0.0.1:8720"},
		{"0.0.0.0", port(1), "127.0.0.1:1"},
		{"::", port(1), "[::1]:1"},
		{"[::1]", port(1), "[::1]:1"},
		{"example.test", port(1), "example.test:1"},
		{"127.0.0.1", port(0), ""}, // any free one: no telling
	} {
		if got := strings.Join(addresses(config.Daemon{Host: c.host, Port: c.port}), " "); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.host, *c.port, got, c.want)
		}
	}
	// Without a port it is the first of ours that was free, beginning at the user's.
	all := addresses(config.Daemon{Host: "127.0.0.1"})
	if len(all) != config.PortRange || all[0] != fmt.Sprintf("127.0.0.1:%d", config.UserPort(userName())) {
		t.Errorf("%d addresses, the first %s", len(all), all[0])
	}
	seen := make(map[string]bool)
	for _, a := range all {
		seen[a] = true
	}
	if len(seen) != config.PortRange {
		t.Errorf("%d different addresses, want %d", len(seen), config.PortRange)
	}
}
