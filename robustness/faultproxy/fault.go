package faultproxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Names of faults.
const (
	Refuse    = "refuse"     // nobody listens, and connections that there are break
	Reset     = "reset"      // every connection breaks at once
	Delay     = "delay"      // every request is held up for Delay
	Hang      = "hang"       // requests are taken, and never answered
	Stall     = "stall"      // nothing goes through, on open answers neither, until it ends
	Drip      = "drip"       // bodies come Bytes at a time, with Delay between
	Cut       = "cut"        // connections end after Bytes of a body
	HalfClose = "half-close" // likewise, but only the end of the stream is sent, and the rest of it waits for the asker
	Corrupt   = "corrupt"    // one bit of a body is another one
	Duplicate = "duplicate"  // every answer is sent twice
	Swap      = "swap"       // two requests that are under way get each other's answers
	Status    = "status"     // the answer is Status
	HTML      = "html"       // the answer is 200 and a page that says that one has to log in
)

// Names returns the names of all faults.
func Names() []string {
	return []string{Refuse, Reset, Delay, Hang, Stall, Drip, Cut, HalfClose, Corrupt, Duplicate, Swap, Status, HTML}
}

// Fault is a way to go wrong.
type Fault struct {
	Name   string
	Bytes  int           // for Drip, Cut and HalfClose; the faults take what is right for them if it is 0
	Delay  time.Duration // for Delay and Drip
	Status int           // for Status
	// Share is the share of requests that meet it, between 0 and 1; 0 means all.
	Share float64
	// Path is the beginning of the paths that meet it.
	Path string
}

func (f Fault) check() error {
	switch {
	case !slices.Contains(Names(), f.Name):
		return fmt.Errorf("no fault is called %q", f.Name)
	case f.Name == Status && (f.Status < 300 || f.Status > 599):
		return fmt.Errorf("status %d is no failure", f.Status)
	}
	return nil
}

func (f Fault) concerns(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, f.Path) }

// page is what a captive portal, or a load balancer with an opinion, answers.
const page = "<!DOCTYPE html>\n<html><head><title>Log in</title></head><body><h1>Please log in</h1></body></html>\n"
