package etagcache

import (
	"strings"

	"github.com/routesrv/routesrv/internal/wire"
)

// encoding is a content coding of bodies.
type encoding = wire.Encoding

const (
	identity  = wire.Identity
	gzipped   = wire.Gzip
	zstandard = wire.Zstd
	encodings = wire.Encodings
)

// encodingHeader has the values of Content-Encoding, which all responses share.
var encodingHeader = [encodings][]string{nil, {"gzip"}, {"zstd"}}

// preference orders encodings that a client accepts equally: the fewest bytes first.
var preference = [encodings]encoding{zstandard, gzipped, identity}

// Weights are in thousandths, doubled to leave room below the smallest: identity is acceptable without being named, but only if
// nothing else is (RFC 9110 §12.5.3).
const (
	weightUnset    = -1
	weightImplicit = 1
	weightUnit     = 2
)

// negotiate returns the encoding for the values of Accept-Encoding. It returns identity for a header that is malformed or
// excludes everything: a larger table is better than none.
func negotiate(values []string) encoding {
	if len(values) == 0 {
		return identity
	}
	if len(values) == 1 && values[0] == "gzip" {
		return gzipped // the header of every Go client
	}
	weights, star, ok := weigh(values)
	if !ok {
		return identity
	}
	return heaviest(weights, star)
}

// negotiateStream is negotiate for streams, which have no zstd form.
func negotiateStream(values []string) encoding {
	if len(values) == 0 {
		return identity
	}
	weights, star, ok := weigh(values)
	if !ok {
		return identity
	}
	weights[zstandard] = 0
	return heaviest(weights, star)
}

// weigh parses the weights of the encodings, and in star the weight of all others.
func weigh(values []string) (weights [encodings]int, star int, ok bool) {
	weights = [encodings]int{weightUnset, weightUnset, weightUnset}
	star = weightUnset
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			coding, weight, ok := parseMember(member)
			if !ok {
				return weights, star, false
			}
			switch coding {
			case "identity":
				weights[identity] = weight
			case "gzip", "x-gzip":
				weights[gzipped] = weight
			case "zstd":
				weights[zstandard] = weight
			case "*":
				star = weight
			}
		}
	}
	return weights, star, true
}

func heaviest(weights [encodings]int, star int) encoding {
	best, most := identity, 0
	for _, e := range preference {
		weight := weights[e]
		if weight == weightUnset {
			weight = star
		}
		if weight == weightUnset && e == identity {
			weight = weightImplicit
		}
		if weight > most {
			best, most = e, weight
		}
	}
	return best
}

// parseMember parses one member of Accept-Encoding. The coding is in lower case, and empty for an empty member.
func parseMember(member string) (coding string, weight int, ok bool) {
	coding, params, weighted := strings.Cut(member, ";")
	coding = strings.ToLower(strings.Trim(coding, " \t"))
	if strings.ContainsAny(coding, " \t\"=/") {
		return "", 0, false
	}
	if !weighted {
		return coding, 1000 * weightUnit, true
	}
	name, q, ok := strings.Cut(strings.Trim(params, " \t"), "=")
	if !ok || coding == "" || !strings.EqualFold(name, "q") {
		return "", 0, false
	}
	thousandths, ok := parseWeight(q)
	return coding, thousandths * weightUnit, ok
}

// parseWeight parses a qvalue (RFC 9110 §12.4.2) in thousandths: 0 or 1 with up to three decimals, at most 1.
func parseWeight(q string) (int, bool) {
	if q == "" || q[0] != '0' && q[0] != '1' || len(q) > len("0.123") {
		return 0, false
	}
	n := int(q[0]-'0') * 1000
	if len(q) == 1 {
		return n, true
	}
	if q[1] != '.' {
		return 0, false
	}
	unit := 100
	for i := 2; i < len(q); i++ {
		if q[i] < '0' || q[i] > '9' {
			return 0, false
		}
		n += int(q[i]-'0') * unit
		unit /= 10
	}
	return n, n <= 1000
}
