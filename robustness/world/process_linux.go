package world

import "syscall"

// childAttributes have a process end with the one that started it, whatever ends that.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
