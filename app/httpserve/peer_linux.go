package httpserve

import (
	"net"
	"syscall"
)

func peerOf(c net.Conn) (p Peer, ok bool) {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, false
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return Peer{}, false
	}
	var cred *syscall.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); e != nil || err != nil {
		return Peer{}, false
	}
	return Peer{UID: int(cred.Uid), PID: int(cred.Pid)}, true
}
