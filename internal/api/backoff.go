package api

import "time"

// DefaultInterval is the default time between two reads, for everything that produces or compares tables.
const DefaultInterval = 3 * time.Second

// Backoff returns the delay after a number of consecutive failures, at least one. It doubles with each failure, from twice the
// interval up to most, and is never shorter than the interval. chance, in [0, 1), randomises the upper half of the delay, so that
// the members of a fleet do not return all at once.
func Backoff(failures int, interval, most time.Duration, chance float64) time.Duration {
	d := interval
	for range failures {
		if d > most/2 {
			d = most
			break
		}
		d *= 2
	}
	least := max(d/2, interval)
	return least + time.Duration(chance*float64(d-least))
}
