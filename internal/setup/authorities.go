package setup

// The container image has no files but the programs, so the programs bring the authorities of the public web themselves.
// They count only where the system has none.
import _ "golang.org/x/crypto/x509roots/fallback"
