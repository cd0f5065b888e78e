package world

import "syscall"

// childAttributes makes a process end with its parent, however that ends.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
