package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
)

// guard decides who may use an endpoint. It is asked before anything of a
// request but its headers is looked at, on every path.
type guard struct {
	hosts    []string                          // lower case
	token    atomic.Pointer[[sha256.Size]byte] // the hash of it; nil: none wanted
	sameUser bool
	refuse   func(net.Conn) error // may be nil
}

func newGuard(opts Options) *guard {
	g := &guard{sameUser: opts.SameUser, refuse: opts.Refuse}
	for _, h := range opts.AllowedHosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.Trim(h, "[]")))
	}
	g.setToken(opts.Token)
	return g
}

func (g *guard) setToken(token string) {
	if token == "" {
		g.token.Store(nil)
		return
	}
	sum := sha256.Sum256([]byte(token))
	g.token.Store(&sum)
}

type peerKey struct{}

// connContext looks once at who opened a connection; a refusal is told to each
// of its requests.
func (g *guard) connContext(ctx context.Context, c net.Conn) context.Context {
	var err error
	if g.sameUser {
		err = checkPeer(c)
	}
	if err == nil && g.refuse != nil {
		err = g.refuse(c)
	}
	if err == nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, err)
}

// checkPeer refuses a local peer that is not our user. Peers elsewhere need a
// token; where the system cannot tell who a peer is, nobody is refused.
func checkPeer(c net.Conn) error {
	uid, err := localsock.PeerUID(c)
	switch {
	case errors.Is(err, localsock.ErrUnsupported), errors.Is(err, localsock.ErrNotLocal):
		return nil
	case err != nil:
		return fmt.Errorf("cannot tell which user this connection belongs to: %w", err)
	case uid != os.Getuid():
		return fmt.Errorf("this server belongs to user %d, and the connection comes from user %d", os.Getuid(), uid)
	}
	return nil
}

// admit reports whether r may be served, and answers it if not. Without a
// token /health may still be asked whether the server lives.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) bool {
	if err, ok := r.Context().Value(peerKey{}).(error); ok {
		http.Error(w, "Forbidden: "+err.Error(), http.StatusForbidden)
		return false
	}
	if !g.allowed(r.Host) {
		http.Error(w, fmt.Sprintf("Forbidden: this server is not %q; use the address it listens on, such as 127.0.0.1", r.Host), http.StatusForbidden)
		return false
	}
	if !g.allowedOrigin(r.Header) {
		http.Error(w, "Forbidden: requests from other web sites are refused", http.StatusForbidden)
		return false
	}
	if !g.authorized(r) && r.URL.Path != "/health" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="async-crud-mcp"`)
		http.Error(w, "Unauthorized: send the server's token as Authorization: Bearer", http.StatusUnauthorized)
		return false
	}
	return true
}

// allowed reports whether host, with or without a port, names this machine's
// loopback or one of the allowed names.
func (g *guard) allowed(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	host = strings.ToLower(host)
	if host == "localhost" || slices.Contains(g.hosts, host) && host != "" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// allowedOrigin refuses what a browser sends for a page of another site. A
// request of a program has none of these headers.
func (g *guard) allowedOrigin(h http.Header) bool {
	origins := h.Values("Origin")
	if len(origins) == 0 {
		return h.Get("Sec-Fetch-Site") != "cross-site"
	}
	if len(origins) > 1 {
		return false
	}
	u, err := url.Parse(origins[0])
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && g.allowed(u.Host)
}

func (g *guard) authorized(r *http.Request) bool {
	want := g.token.Load()
	if want == nil {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}
