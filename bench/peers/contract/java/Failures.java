package contract;

/** How many records failed, and why the first did. Safe from several threads. */
final class Failures {
    private long count;
    private String first;

    synchronized void add(long failures, String why) {
        if (failures > 0 && count == 0) {
            first = why;
        }
        count += failures;
    }

    void add(Throwable failure) {
        add(1, sentence(failure));
    }

    synchronized long count() {
        return count;
    }

    synchronized String first() {
        return first;
    }

    /** An exception in a sentence: what it wraps, with its kind, since many messages say little without. */
    static String sentence(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null && (cause instanceof java.util.concurrent.ExecutionException
                || cause instanceof java.util.concurrent.CompletionException || cause.getMessage() == null)) {
            cause = cause.getCause();
        }
        String kind = cause.getClass().getSimpleName();
        return cause.getMessage() == null ? kind : kind + ": " + cause.getMessage();
    }
}
