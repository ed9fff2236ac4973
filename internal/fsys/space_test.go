package fsys

import "testing"

func TestFreeSpaceIsKnownOfWhatExists(t *testing.T) {
	if free, err := Free(t.TempDir()); err != nil || free <= 0 {
		t.Errorf("Free = %d, %v, want some space", free, err)
	}
	if _, err := Free(t.TempDir() + "/none"); err == nil {
		t.Error("Free of nothing worked")
	}
}
