//go:build !linux

package search_test

const toldOfChanges = false
