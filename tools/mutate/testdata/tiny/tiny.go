// Package tiny has one mutant with each outcome.
package tiny

import "log/slog"

// Adult has a test, but none at the boundary.
func Adult(age int) bool { return age > 17 }

// Name cannot subtract texts. The line of the log is not taken out.
func Name(log *slog.Logger, first, last string) string {
	log.Info("name")
	return first + last
}
