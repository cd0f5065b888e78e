package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/httpserve"
)

// tokenFor is how long a form stays valid after its page was served.
const tokenFor = 12 * time.Hour

// token returns a token that lets a form of this process accept a table until it expires. Only pages served to an operator
// contain one, and pages of other sites cannot read it. It is bound to the digest shown, so that it cannot accept another table.
func (c *Console) token(digest string, now time.Time) string {
	expires := binary.BigEndian.AppendUint64(nil, uint64(now.Add(tokenFor).Unix()))
	return base64.RawURLEncoding.EncodeToString(append(expires, c.sum(expires, digest)...))
}

func (c *Console) sum(expires []byte, digest string) []byte {
	mac := hmac.New(sha256.New, c.key[:])
	mac.Write([]byte("accept"))
	mac.Write(expires)
	mac.Write([]byte(digest))
	return mac.Sum(nil)
}

// validToken checks a token. The comparison takes constant time.
func (c *Console) validToken(token, digest string, now time.Time) bool {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 8+sha256.Size {
		return false
	}
	expires := binary.BigEndian.Uint64(raw)
	return hmac.Equal(raw[8:], c.sum(raw[:8], digest)) && now.Unix() < int64(min(expires, 1<<62))
}

// accept handles the form. It requires the conditions of [httpserve.Accept]: a request from the loopback interface, under a
// loopback name, and not from a page of another site. It also requires a name, a reason and the token.
func (c *Console) accept() http.Handler {
	take := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpserve.FromLoopback(r) {
			c.fail(w, http.StatusForbidden, "Not accepted", "Only the loopback interface can accept a table: use kubectl port-forward.")
			return
		}
		a, err := httpserve.ReadAcceptance(w, r)
		switch {
		case err != nil:
			c.fail(w, http.StatusBadRequest, "Not accepted", err.Error())
			return
		case !c.validToken(r.PostForm.Get("token"), r.PostForm.Get("digest"), time.Now()):
			c.fail(w, http.StatusForbidden, "Not accepted",
				"The token of the form is missing, wrong or too old. Open the page again: the server may have restarted.")
			return
		case strings.TrimSpace(a.By) == "" || strings.TrimSpace(a.Why) == "":
			c.fail(w, http.StatusBadRequest, "Not accepted", "Give your name and a reason: colleagues will want to know.")
			return
		}
		t, err := c.cfg.Accept(a)
		if err != nil {
			status, why := refusal(err)
			c.fail(w, status, "Not accepted", why)
			return
		}
		c.log.Warn("held table accepted by an operator", "remote", r.RemoteAddr, "hash", t.Digest().String(), "by", a.By, "why", a.Why)
		w.Header().Set("Location", "./#gate") // relative: a proxy may serve the pages below a path
		w.WriteHeader(http.StatusSeeOther)
	})
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.fail(w, http.StatusForbidden, "Not accepted", "The form was sent by a page of another site.")
	}))
	protected := protection.Handler(take)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w)
		w.Header().Set("Cache-Control", "no-store")
		protected.ServeHTTP(w, r)
	})
}

// refusal explains why the guard refused an acceptance.
func refusal(err error) (status int, why string) {
	switch {
	case errors.Is(err, guard.ErrNothingHeld):
		return http.StatusConflict, "No table is held any more: it was released or accepted meanwhile, or the source now shows a table that needs no hold."
	case errors.Is(err, guard.ErrNotHeld):
		return http.StatusConflict, "Another table is held now. Look at it before you accept it."
	case errors.Is(err, guard.ErrNoDigest):
		return http.StatusBadRequest, err.Error()
	}
	return http.StatusInternalServerError, err.Error()
}
