package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
)

// PortTaken says that somebody else listens where we should.
type PortTaken struct {
	Address string
	Holder  localsock.Holder
	Err     error
}

func (e *PortTaken) Error() string {
	return fmt.Sprintf("%s is taken by %s", e.Address, e.Holder)
}

func (e *PortTaken) Unwrap() error { return e.Err }

// Listen opens the HTTP port the settings name. Port null means one of ours,
// beginning at a place that depends on the user's name.
func (a *App) Listen(ctx context.Context) (net.Listener, error) {
	return listenFor(ctx, a.Settings.Current().Config.Daemon)
}

func listenFor(ctx context.Context, d config.Daemon) (net.Listener, error) {
	if !isLoopback(d.Host) && d.Token == nil {
		return nil, fmt.Errorf("daemon.host %s can be reached from other machines, so daemon.token must name a file with a token", d.Host)
	}
	if d.Port != nil {
		return listen(ctx, d.Host, *d.Port)
	}
	first := config.UserPort(userName())
	var firstTaken error
	for i := range config.PortRange {
		ln, err := listen(ctx, d.Host, config.FirstPort+(first-config.FirstPort+i)%config.PortRange)
		if err == nil {
			return ln, nil
		}
		if _, taken := errors.AsType[*PortTaken](err); !taken {
			return nil, err
		}
		if firstTaken == nil {
			firstTaken = err
		}
	}
	return nil, firstTaken
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
	network := "tcp"
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		network = "tcp4" // else 0.0.0.0 would mean every address of either kind
	}
	ln, err := new(net.ListenConfig).Listen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &PortTaken{Address: address, Holder: localsock.HolderOf(port), Err: err}
	}
	return ln, err
}

// isLoopback reports whether host can be reached from this machine only.
func isLoopback(host string) bool {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// hostNames lists the names by which clients on other machines may call a
// server that listens on host; a loopback address needs none.
func hostNames(host string) []string {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case isLoopback(host):
		return nil
	case err != nil || !addr.IsUnspecified():
		return []string{host}
	}
	var names []string
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	addrs, _ := net.InterfaceAddrs() // what cannot be listed cannot be allowed
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok {
			names = append(names, ip.IP.String())
		}
	}
	return names
}

func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	// Windows puts the domain before the name.
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:]
}

// Address is how a client on this machine reaches ln.
func Address(ln net.Listener) string {
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsUnspecified() {
		return ln.Addr().String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port))
}
