// Package pace has the rhythm of what makes tables, by computing or by fetching: how often it looks for another one, and how
// long it leaves alone what fails.
package pace

import "time"

// DefaultInterval is the time between two looks, for all that make tables or compare them.
const DefaultInterval = 3 * time.Second

// Backoff returns the delay after failures in a row, at least one. It doubles with each of them, from twice the interval to most,
// and is never shorter than the interval. The upper half of it is left to chance, a number in [0, 1), so that the members of a
// fleet do not come back together.
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
