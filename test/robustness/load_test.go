package robustness

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// load is the processor time used so far: by all processes of the machine, and by this process with its children. The unit is a
// tick of USER_HZ, of which there are 100 per second everywhere.
type load struct{ busy, all, ours float64 }

const (
	// loadWindow is the interval over which the load is measured: the machine may be busy for a part of a run only.
	loadWindow = 5 * time.Second
	// aloneShare is the share of the processors from which on a run has the machine to itself.
	aloneShare = 0.75
)

// stretch measures until ctx ends by which factor everything takes longer because others use the machine, in its busiest time. pids returns the
// processes of the run.
func stretch(ctx context.Context, pids func() []int) float64 {
	left, before, more := 1.0, loadNow(pids()), true
	for more {
		more = sleepUntil(ctx, time.Now().Add(loadWindow))
		if now := loadNow(pids()); more || now.all-before.all > 100 { // the last window may be shorter, but not a moment
			left, before = min(left, now.left(before)), now
		}
	}
	if left >= aloneShare {
		return 1
	}
	return 2 / left // more than the inverse of the share, because a task waits for several others before its turn
}

// loadNow reads the load. running are the children that have not been waited for yet.
func loadNow(running []int) load {
	var l load
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l // unknown on other systems
	}
	first, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(first)[1:] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil || i > 7 { // guest time is included in user time
			break
		}
		l.all += n
		if i != 3 && i != 4 { // except idle and waiting for disks
			l.busy += n
		}
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			l.ours += 100 * (float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6)
		}
	}
	for _, pid := range running {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, at := range []int{11, 12} { // user and system time
			if at < len(fields) {
				n, _ := strconv.ParseFloat(fields[at], 64)
				l.ours += n
			}
		}
	}
	return l
}

// left returns the share of the processors that other processes left to us since an earlier time, between 0.05 and 1. On a busy
// machine a slow run does not mean a slow product.
func (l load) left(since load) float64 {
	all := l.all - since.all
	if all <= 0 {
		return 1
	}
	others := (l.busy - since.busy) - (l.ours - since.ours)
	return min(1, max(0.05, 1-max(0, others)/all))
}
