package proc

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Here a tree is a job object, which nothing that its members start can leave,
// and which ends with this process.

// system is what a process holds of the operating system.
type system struct {
	job windows.Handle // 0: found again
}

func attributes() *syscall.SysProcAttr {
	// Suspended until it is in its job, so that it can start nothing outside.
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_SUSPENDED, HideWindow: true}
}

func (p *Process) launch(cmd *exec.Cmd) error {
	job, err := newJob()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job)
		return err
	}
	p.job, p.id.PID = job, cmd.Process.Pid
	err = os.NewSyscallError("AssignProcessToJobObject", windows.ERROR_INVALID_HANDLE)
	if e := cmd.Process.WithHandle(func(h uintptr) {
		err = windows.AssignProcessToJobObject(job, windows.Handle(h))
	}); e != nil {
		err = e
	}
	if err == nil {
		err = resume(uint32(p.id.PID))
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		p.free()
		return err
	}
	p.id.Start, _ = startOf(p.id.PID)
	return nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	var limit windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limit.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limit)), uint32(unsafe.Sizeof(limit)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return job, nil
}

// resume lets the only thread of a suspended process run.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return os.NewSyscallError("CreateToolhelp32Snapshot", err)
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()
	var entry windows.ThreadEntry32
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return os.NewSyscallError("OpenThread", err)
		}
		_, err = windows.ResumeThread(thread)
		_ = windows.CloseHandle(thread)
		return os.NewSyscallError("ResumeThread", err)
	}
	return os.NewSyscallError("Thread32Next", err)
}

// free gives the job object back, under the lock of signal.
func (s *system) free() {
	if s.job != 0 {
		_ = windows.CloseHandle(s.job)
		s.job = 0
	}
}

func (p *Process) release() {}
func (p *Process) adopt()   {}

// waitLeader leaves the process to Wait: its handle keeps its number its own.
func (p *Process) waitLeader() {
	_ = p.cmd.Process.WithHandle(func(h uintptr) {
		_, _ = windows.WaitForSingleObject(windows.Handle(h), windows.INFINITE)
	})
}

func enlarge(*os.File) {}

// strays counts the living members of the job.
func (p *Process) strays(bool) int {
	if p.job == 0 {
		return 0
	}
	var info struct {
		UserTime, KernelTime, PeriodUserTime, PeriodKernelTime  int64
		PageFaults, Processes, ActiveProcesses, TerminatedCount uint32
	}
	const basicAccounting = 1 // JobObjectBasicAccountingInformation
	err := windows.QueryInformationJobObject(p.job, basicAccounting, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	if err != nil {
		return 0
	}
	return int(info.ActiveProcesses)
}

// signal asks the console group of the leader to break off, or ends the job.
func (p *Process) signal(kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.job != 0 && kill:
		_ = windows.TerminateJobObject(p.job, 1)
	case p.reaped || p.cmd == nil && !p.id.alive():
	case !kill:
		_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.id.PID))
	default:
		h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, uint32(p.id.PID))
		if err != nil {
			return
		}
		_ = windows.TerminateProcess(h, 1)
		_ = windows.CloseHandle(h)
	}
}

// startOf returns when a process was started, and whether it runs.
func startOf(pid int) (start string, runs bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return "", false
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) != nil {
		return "", false
	}
	state, err := windows.WaitForSingleObject(h, 0)
	return strconv.FormatInt(created.Nanoseconds(), 10), err == nil && state == uint32(windows.WAIT_TIMEOUT)
}

func (id Identity) alive() bool {
	start, runs := startOf(id.PID)
	return runs && start == id.Start
}

// from reads how the process ended.
func (e *Exit) from(s *os.ProcessState) {
	e.Code, e.Unknown = s.ExitCode(), s == nil
}

// stopReading ends a read that waits, where the system can.
func stopReading(r *os.File) {
	if r.SetReadDeadline(time.Unix(1, 0)) != nil {
		_ = windows.CancelIoEx(windows.Handle(r.Fd()), nil)
	}
}
