package robustness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/routesrv/routesrv/test/robustness/plan"
)

// diskSize is the capacity of a process's folder: many times what it writes.
const diskSize = 64 << 20

// mount mounts a separate disk at a folder, if this process may do that. Otherwise disks are never full and never read-only.
func (w *World) mount(folder string) error {
	err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0700", diskSize))
	if err != nil {
		w.disable(plan.DiskFull, fmt.Errorf("filling a disk needs the right to mount: %w", err))
		w.disable(plan.ReadOnly, fmt.Errorf("a read-only disk needs the right to mount: %w", err))
	}
	return nil
}

func unmount(folder string) { _ = unix.Unmount(folder, unix.MNT_DETACH) }

// can reports whether a fault is possible here.
func (w *World) can(fault string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.disabled[fault] == ""
}

// fill fills the disk of a process to the last byte.
func (w *World) fill(p *Process) func() error {
	if !w.can(plan.DiskFull) {
		return nil
	}
	path := filepath.Join(p.Folder, "state", "filler")
	write := func() {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		defer f.Close()
		for block := make([]byte, 1<<20); len(block) > 0; {
			if _, err := f.Write(block); err != nil {
				if !errors.Is(err, unix.ENOSPC) {
					return
				}
				block = block[:len(block)/2]
			}
		}
	}
	write()
	write() // space that was freed meanwhile
	return func() error { return os.Remove(path) }
}

// readOnly makes the disk of a process read-only. That fails while a file is open for writing, so it retries for a moment.
func (w *World) readOnly(p *Process) func() error {
	if !w.can(plan.ReadOnly) {
		return nil
	}
	folder := filepath.Join(p.Folder, "state")
	remount := func(flags uintptr) error {
		var err error
		for range 200 {
			if err = unix.Mount("tmpfs", folder, "tmpfs", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|flags, ""); !errors.Is(err, unix.EBUSY) {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return err
	}
	if err := remount(unix.MS_RDONLY); err != nil {
		return nil // files were open for writing all the time
	}
	return func() error { return remount(0) }
}

// noFiles limits the process to two more open descriptors.
func (w *World) noFiles(p *Process) func() error {
	pid := p.PID()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if pid == 0 || err != nil {
		return nil
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return nil
	}
	less := before
	less.Cur = uint64(len(fds) + 2)
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &less, nil); err != nil {
		w.disable(plan.NoFiles, err)
		return nil
	}
	return func() error {
		err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil)
		if errors.Is(err, syscall.ESRCH) {
			return nil // it has ended meanwhile
		}
		return err
	}
}

// watchWrites springs the trap for a process when it begins to write its last-known-good file.
func (w *World) watchWrites(p *Process) (stop func()) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return func() {}
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(p.Folder, "state"), unix.IN_MODIFY); err != nil {
		_ = f.Close()
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if n, err := f.Read(make([]byte, 4096)); err == nil && n > 0 {
			w.spring(p.Name, plan.WhileWrites)
		}
	}()
	return func() {
		_ = f.Close()
		<-ended
	}
}

// childAttributes makes a process end with its parent, however that ends.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
