// Command release makes what belongs to a release and goreleaser does not make:
//
//	release share DIR                             man pages and completions
//	release sbom -version V -o FILE PROGRAM       what was compiled into a program, in CycloneDX
//	release bundle -version V -o FILE PROGRAM…    the .mcpb bundle of programs for several systems
//	release server -version V -bundle FILE -o FILE   server.json for the MCP registry
//	release folder [-version V] [-program FILE] DIR  a release folder for this machine alone
//	release stamp                                 the version of internal/cli into packaging/
//
// A program may stand for a glob pattern. The same input gives the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

//go:generate go run . stamp

const (
	program = "async-crud-mcp"
	module  = "github.com/async-crud-mcp/async-crud-mcp"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("which part? share, sbom, bundle, server, folder or stamp")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	version := flags.String("version", "", "version of the release")
	out := flags.String("o", "", "file to write")
	exe := flags.String("program", "", "program built already; empty to build it")
	bundle := flags.String("bundle", "", "the .mcpb bundle that server.json names")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	root, err := checkout()
	if err != nil {
		return err
	}
	switch args[0] {
	case "share":
		if flags.NArg() != 1 {
			return errors.New("share wants a directory")
		}
		return share(root, *exe, flags.Arg(0))
	case "sbom":
		if flags.NArg() != 1 || *version == "" || *out == "" {
			return errors.New("sbom wants -version, -o and a program")
		}
		return sbom(flags.Arg(0), *version, *out)
	case "bundle":
		programs, err := globs(flags.Args())
		if err != nil {
			return err
		}
		if len(programs) == 0 || *version == "" || *out == "" {
			return errors.New("bundle wants -version, -o and programs")
		}
		return writeBundle(root, programs, *version, *out)
	case "server":
		if *version == "" || *bundle == "" || *out == "" {
			return errors.New("server wants -version, -bundle and -o")
		}
		return writeServer(root, *bundle, *version, *out)
	case "folder":
		if flags.NArg() != 1 {
			return errors.New("folder wants a directory")
		}
		return folder(root, *exe, *version, flags.Arg(0))
	case "stamp":
		return stamp(root)
	}
	return fmt.Errorf("there is no part %q", args[0])
}

// checkout finds the root of the module above the current directory: goreleaser
// calls from its output folder, go generate from this one.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the current directory")
		}
		dir = up
	}
}

func globs(patterns []string) ([]string, error) {
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("nothing is named %s", p)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return all, nil
}

var declared = regexp.MustCompile(`(?m)^var version = "([^"]+)"$`)

// sourceVersion is the version a build from this source has: the one place that
// names it is internal/cli/version.go.
func sourceVersion(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "internal", "cli", "version.go"))
	if err != nil {
		return "", err
	}
	m := declared.FindSubmatch(b)
	if m == nil {
		return "", errors.New("internal/cli/version.go declares no version")
	}
	return string(m[1]), nil
}
