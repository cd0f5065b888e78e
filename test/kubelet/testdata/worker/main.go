// Command worker runs in the containers of tests: a server that reports its environment and obeys requests.
//
//	worker ADDRESS [WORD...]   serve; the words are
//	    late      /health answers 503 for the first 300 ms
//	    deaf      does not end on SIGTERM
//	    fragile   ends by itself when /break is asked
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	address, words := os.Args[1], os.Args[2:]
	begin := time.Now()
	var broken atomic.Bool
	http.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() || slices.Contains(words, "late") && time.Since(begin) < 300*time.Millisecond {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/break", func(http.ResponseWriter, *http.Request) {
		broken.Store(true)
		if slices.Contains(words, "fragile") {
			os.Exit(3)
		}
	})
	http.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		groups, err := os.Getgroups()
		host, err2 := os.Hostname()
		if err != nil || err2 != nil {
			panic(fmt.Sprint(err, err2))
		}
		json.NewEncoder(w).Encode(map[string]any{
			"Args": os.Args, "Env": os.Environ(), "UID": os.Getuid(), "GID": os.Getgid(), "Groups": groups, "Host": host,
		})
	})
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(r.FormValue("path"))
		answer(w, content, err)
	})
	http.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, os.WriteFile(r.FormValue("path"), []byte("text"), 0o600))
	})
	http.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		resp, err := http.Get(r.FormValue("url"))
		if err != nil {
			answer(w, nil, err)
			return
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		answer(w, content, err)
	})
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("started", time.Now().UnixNano())
	go func() { panic(http.ListenAndServe(address, nil)) }()
	for {
		<-stop
		fmt.Println("stopped", time.Now().UnixNano())
		if !slices.Contains(words, "deaf") {
			return
		}
	}
}

func answer(w http.ResponseWriter, content []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(content)
}
