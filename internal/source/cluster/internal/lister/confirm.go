package lister

import (
	"context"
	"fmt"
	"log/slog"
)

// confirmedLoss is the share of known objects that a list may lack before another list has to confirm it. It equals
// the guard's default share for routes.
const confirmedLoss = 0.5

// LogUnconfirmed is logged as a warning when a list lacks objects that a consistent list made right after it has.
const LogUnconfirmed = "a list lacked objects that a consistent list has; the API server, or something in front of it, answers wrongly"

// confirmLoss makes a second, consistent request if the answer lacks so many known objects that it may be wrong: all
// objects of the kind, or most of them. The second answer counts.
func (r *Lister) confirmLoss(ctx context.Context, l *List, a Listing, known State) (Listing, error) {
	if !a.suspicious(len(known.Items)) {
		return a, nil
	}
	again, err := r.ask(ctx, l, 0, known)
	if err != nil {
		return again, fmt.Errorf("confirm by a consistent list that %d of %d objects are gone: %w", a.lost, len(known.Items), err)
	}
	if again.lost < a.lost {
		r.Log.Warn(LogUnconfirmed, slog.String("kind", string(l.Kind)), slog.Int("objects", a.lost-again.lost))
	}
	return again, nil
}

// suspicious reports whether the answer lacks so many of the known objects that another list has to confirm it.
func (a Listing) suspicious(known int) bool {
	return a.lost > 0 && (a.lost == known || float64(a.lost) > confirmedLoss*float64(known))
}
