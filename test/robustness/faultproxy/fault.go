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
	Refuse    = "refuse"     // connections are refused, and existing ones break
	Reset     = "reset"      // every connection breaks at once
	Delay     = "delay"      // every request is delayed by Delay
	Hang      = "hang"       // requests are accepted and never answered
	Stall     = "stall"      // no data passes, not even on open answers, until the fault ends
	Drip      = "drip"       // bodies arrive Bytes at a time, with Delay in between
	Cut       = "cut"        // connections end after Bytes of a body
	HalfClose = "half-close" // like Cut, but only the end of the stream is sent, and the connection stays half open
	Corrupt   = "corrupt"    // one bit of a body is flipped
	Duplicate = "duplicate"  // every answer is sent twice
	Swap      = "swap"       // two concurrent requests get each other's answers
	Status    = "status"     // the answer is Status
	HTML      = "html"       // the answer is 200 with a login page
)

// Names returns the names of all faults.
func Names() []string {
	return []string{Refuse, Reset, Delay, Hang, Stall, Drip, Cut, HalfClose, Corrupt, Duplicate, Swap, Status, HTML}
}

// Fault is a fault to inject.
type Fault struct {
	Name   string
	Bytes  int           // for Drip, Cut and HalfClose; 0 chooses a suitable value
	Delay  time.Duration // for Delay and Drip
	Status int           // for Status
	// Share is the share of requests that meet the fault, between 0 and 1; 0 means all.
	Share float64
	// Path is the prefix of the paths that meet the fault.
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

// page is the answer of a captive portal or a misconfigured load balancer.
const page = "<!DOCTYPE html>\n<html><head><title>Log in</title></head><body><h1>Please log in</h1></body></html>\n"
