package commit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// A temp file stands beside the file it is about:
//
//	.<name>.<host>-<pid>-<life>-<random>-<old>-<new>.acm-tmp
//
// host, pid and life (which run of that pid) say whose it is, so that a sweep
// leaves those of the living alone. old and new are the beginnings of the sha256
// of the content that is to be replaced and of the new content's checksum: between
// an exchange and the look at what came out, a crash may leave a save of somebody
// else under this name, and the sweep can tell.
const tempSuffix = ".acm-tmp"

// foreignAge is how old a temp file gets whose owner nobody here can ask about:
// one of another machine or container on a shared file system.
const foreignAge = time.Hour

type temp struct {
	target   string // the name it is about, whole only if it is not cut
	cut      bool
	host     string
	pid      int
	life     string
	old, new string
}

const noTag = "0"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func oldTag(c *Content) string {
	if c == nil {
		return noTag
	}
	return fmt.Sprintf("%x", c.Sum[:4])
}

func newTag(data []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli)) }

// tempName returns an unpredictable temp name for target that fits beside it.
func tempName(target, old, new string) string {
	me := self()
	tail := fmt.Sprintf(".%s-%s-%s-%s-%s-%s%s", me.host, strconv.FormatInt(int64(me.pid), 36), me.life,
		strings.ToLower(rand.Text()[:13]), old, new, tempSuffix)
	if room := opendir.LongestName - 1 - len(tail); len(target) > room {
		for room > 0 && !utf8.RuneStart(target[room]) {
			room-- // half a letter is no name on some file systems
		}
		target = target[:room]
	}
	return "." + target + tail
}

// IsTemp reports whether name is that of a temp file of ours, of whatever
// process.
func IsTemp(name string) bool {
	if !strings.HasSuffix(name, tempSuffix) {
		return false
	}
	_, ok := parseTemp(name)
	return ok
}

func parseTemp(name string) (temp, bool) {
	body, ok := strings.CutSuffix(name, tempSuffix)
	dot := strings.LastIndexByte(body, '.')
	if !ok || dot < 1 || body[0] != '.' {
		return temp{}, false
	}
	part := strings.Split(body[dot+1:], "-")
	if len(part) != 6 || len(part[3]) != 13 {
		return temp{}, false
	}
	pid, err := strconv.ParseInt(part[1], 36, 32)
	if err != nil || pid <= 0 {
		return temp{}, false
	}
	return temp{
		target: body[1:dot], cut: len(name) > opendir.LongestName-utf8.UTFMax,
		host: part[0], pid: int(pid), life: part[2], old: part[4], new: part[5],
	}, true
}

// owner is a process, told apart from others that had or will have its number.
type owner struct {
	host, life string
	pid        int
}

// short is enough of a hash to tell machines and runs apart.
func short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:6])
}

// stale reports whether nobody will come back for it.
func (t temp) stale(info opendir.Info) bool {
	me := self()
	switch {
	case t.host != me.host:
		return time.Since(time.Unix(0, max(info.Stamp.Ctime, info.Stamp.Mtime))) > foreignAge
	case t.pid == me.pid:
		return t.life != me.life
	default:
		return !alive(t.pid, t.life)
	}
}

// Sweep removes what processes that died in the middle of a change left behind,
// in dir and below. A save of somebody else that such a process had in its hands
// goes back to its place. Temp files of the living stay. It returns how many it
// removed; what it cannot read or remove it passes over.
func Sweep(ctx context.Context, dir *opendir.Dir) (removed int, err error) {
	return sweep(ctx, dir, 0)
}

func sweep(ctx context.Context, d *opendir.Dir, depth int) (removed int, err error) {
	if err := context.Cause(ctx); err != nil || depth > Deepest {
		return 0, err
	}
	entries, _ := d.Read()
	for _, e := range entries {
		if t, ok := parseTemp(e.Name); ok {
			info, err := d.Stat(e.Name)
			if err == nil && t.stale(info) && t.clear(d, e.Name, info) == nil {
				removed++
			}
		} else if e.Kind == opendir.Directory {
			sub, err := d.Dir(e.Name)
			if err != nil {
				continue
			}
			n, err := sweep(ctx, sub, depth+1)
			sub.Close()
			removed += n
			if err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// clear removes the temp file name, but first puts back what came out of an
// exchange and was never looked at.
func (t temp) clear(d *opendir.Dir, name string, info opendir.Info) error {
	if info.Kind == opendir.Regular && t.old != noTag {
		old, new, err := tagsOf(d, name)
		switch {
		case err != nil:
			return err
		case old == t.old || new == t.new:
		case t.cut:
			return errors.ErrUnsupported // nobody knows its whole name: it is kept
		default:
			return t.giveBack(d, name)
		}
	}
	return RemoveTree(d, name)
}

// giveBack puts name back to where it came from, unless somebody saved there
// again: then that is the newer one.
func (t temp) giveBack(d *opendir.Dir, name string) error {
	if _, new, err := tagsOf(d, t.target); err == nil && new == t.new {
		if begins(d, t.target, name) {
			// Not a save of somebody else, but our own draft, which was not written to
			// its end; the same change was made again since.
			return d.Remove(name)
		}
		if err := d.Exchange(name, t.target); err != nil {
			return err
		}
		return d.Remove(name)
	}
	err := d.RenameNew(name, d, t.target)
	if errors.Is(err, fs.ErrExist) {
		return d.Remove(name)
	}
	return err
}

// begins reports whether the file whole begins with all that part holds.
func begins(d *opendir.Dir, whole, part string) bool {
	a, err := d.Open(whole)
	if err != nil {
		return false
	}
	defer a.Close()
	b, err := d.Open(part)
	if err != nil {
		return false
	}
	defer b.Close()
	of, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(struct{ io.Reader }{b}, want)
		if n > 0 {
			if m, _ := io.ReadFull(struct{ io.Reader }{a}, of[:n]); m < n || string(of[:n]) != string(want[:n]) {
				return false
			}
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

func tagsOf(d *opendir.Dir, name string) (old, new string, err error) {
	f, err := d.Open(name)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if _, err := f.Regular(); err != nil {
		return "", "", err
	}
	sum, check := sha256.New(), crc32.New(castagnoli)
	if _, err := io.CopyBuffer(io.MultiWriter(sum, check), struct{ io.Reader }{f}, make([]byte, 64<<10)); err != nil {
		return "", "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:4]), fmt.Sprintf("%08x", check.Sum32()), nil
}
