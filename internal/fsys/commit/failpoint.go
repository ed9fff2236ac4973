package commit

// step makes a system call that neither a crash nor an error may spoil. Its name
// is in Steps. A test, or a build with the tag failpoint, can put something
// before it: an error from there stands for an error of the call.
func step(name string, call func() error) error {
	if Failpoint != nil {
		if err := Failpoint(name); err != nil {
			return err
		}
	}
	return call()
}

// Steps are the names of all failpoints, in the order of each operation.
var Steps = []string{
	"mkdir.make", "mkdir.sync",
	"create.temp", "create.write", "create.flush", "create.place", "create.sync",
	"replace.temp", "replace.write", "replace.resemble", "replace.flush",
	"replace.exchange", "replace.check", "replace.sync", "replace.unlink",
	"append.write", "append.flush",
	"remove.aside", "remove.check", "remove.sync", "remove.unlink",
	"rename.place", "rename.sync",
	"copy.temp", "copy.write", "copy.flush", "copy.place", "copy.sync",
}
