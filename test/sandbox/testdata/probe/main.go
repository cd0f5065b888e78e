// Command probe prints its identity, environment and abilities. With an address it serves them there until SIGTERM.
package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

type report struct {
	UID, GID          int
	Groups            []int
	Env, Args         []string
	Hostname          string
	Capabilities      string // effective, as the kernel prints them
	NoNewPrivileges   string
	Root              []string // names in /
	WriteRoot         string   // error of an attempt
	WriteData         string
	WriteFixed        string
	Escape            string // error of an attempt to get out of the file system
	Remount           string // error of an attempt to make / writable
	NetworkInterfaces []string
}

func main() {
	r := report{UID: os.Getuid(), GID: os.Getgid(), Env: os.Environ(), Args: os.Args[1:]}
	r.Groups, _ = os.Getgroups()
	r.Hostname, _ = os.Hostname()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "CapEff":
			r.Capabilities = strings.TrimSpace(value)
		case "NoNewPrivs":
			r.NoNewPrivileges = strings.TrimSpace(value)
		}
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		r.Root = append(r.Root, e.Name())
	}
	r.WriteRoot = text(os.WriteFile("/new", nil, 0o600))
	r.WriteData = text(os.WriteFile("/data/new", nil, 0o600))
	r.WriteFixed = text(os.WriteFile("/fixed/new", nil, 0o600))
	r.Escape = text(syscall.Chroot("/proc"))
	r.Remount = text(syscall.Mount("", "/", "", syscall.MS_REMOUNT|syscall.MS_BIND, ""))
	interfaces, err := net.Interfaces()
	if err != nil {
		panic(err)
	}
	for _, i := range interfaces {
		r.NetworkInterfaces = append(r.NetworkInterfaces, i.Name)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 {
		serve(os.Args[1])
	}
}

func serve(address string) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	l, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	<-stop
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
