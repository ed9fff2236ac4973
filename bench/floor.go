package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// The floors: the same work without a server, in this process.

// durable writes a file as one must for it to survive a power cut whole: beside
// its place, flushed, renamed, and the directory flushed.
func durable(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".floor-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// durableEdit is what an edit cannot do without: read, replace, write durably.
func durableEdit(path, before, after string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return durable(path, bytes.Replace(data, []byte(before), []byte(after), 1))
}

// walk goes through a tree and looks at size and time of every entry, which a
// listing tells.
func walk(root string, recursive bool) error {
	n := int64(0)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if n += info.Size(); d.IsDir() && !recursive {
			return fs.SkipDir
		}
		return nil
	})
}
